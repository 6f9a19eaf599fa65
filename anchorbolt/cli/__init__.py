"""The command line. Parses, shows and maps errors to exit codes; what it runs is in `engine`, open to Python alike."""
