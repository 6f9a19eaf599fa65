"""The command line: parses arguments, calls `engine` and the tools, prints results, maps errors to exit codes."""
