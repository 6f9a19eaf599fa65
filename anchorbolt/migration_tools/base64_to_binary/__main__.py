"""`python -m anchorbolt.migration_tools.base64_to_binary`: the same as `anchorbolt migrate base64-to-binary`."""

from anchorbolt.cli.migrate import base64_to_binary_alone

if __name__ == "__main__":
    base64_to_binary_alone()
