"""The command line: parses arguments, prints results, maps errors to exit codes. `engine` and the tools do the work."""
