"""HiGHS without a word on standard output, where results in JSON go."""

from typing import Any

import highspy


class Silent(highspy.Highs):  # type: ignore[misc]
    """HiGHS with some options, which prints nothing; version 1.16 says who it is when callbacks are enabled."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        for option, value in options.items():
            self.setOptionValue(option, value)

    def enableCallbacks(self) -> Any:  # noqa: N802 - the name in highspy
        """Silence it first: its constructor calls this."""
        self.setOptionValue("output_flag", False)
        return super().enableCallbacks()
