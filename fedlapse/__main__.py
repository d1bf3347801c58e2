"""Makes `python -m fedlapse` the command."""

from emulator.__main__ import main

if __name__ == "__main__":
    main()
