"""The `antiphon` command, also as `python -m antiphon`."""

from antiphon.interrupts import QuietInterrupts


def main() -> None:
    with QuietInterrupts():
        from antiphon.cli.main import main as run
    run()


if __name__ == "__main__":
    main()
