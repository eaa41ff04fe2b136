"""Loggers for the path of `publish_event`: the library behind them is loaded with the first message."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from logging import Logger


class LateLog:
    """Stands for `logging.getLogger(name)`; most commands have nothing to log."""

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, message: str, *facts: object) -> None:
        """See `logging.Logger.info`."""
        self._logger().info(message, *facts)

    def warning(self, message: str, *facts: object) -> None:
        """See `logging.Logger.warning`."""
        self._logger().warning(message, *facts)

    def _logger(self) -> "Logger":
        import logging  # noqa: PLC0415 - a tenth of a worker's start

        return logging.getLogger(self._name)
