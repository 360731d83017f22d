"""HiGHS without output: standard output is for JSON."""

from typing import Any

import highspy


class Silent(highspy.Highs):  # type: ignore[misc]
    """HiGHS that prints nothing; version 1.16 prints its name when callbacks are enabled."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        for option, value in options.items():
            self.setOptionValue(option, value)

    def enableCallbacks(self) -> Any:  # noqa: N802 - the name in highspy
        """Silence it first: its constructor calls this."""
        self.setOptionValue("output_flag", False)
        return super().enableCallbacks()
