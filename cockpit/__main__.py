"""Entry point of ``spark-cockpit`` and of ``python -m cockpit``."""

from cockpit.cli.main import main

if __name__ == "__main__":
    main()
