"""Logs made for tests: records as vLLM 0.32 and Ray 2.60 write them."""

from __future__ import annotations

from cockpit.diagnosis.sources import SERVE, Source

HOSTS = {"10.0.0.1": "spark-a", "10.0.0.2": "spark-b"}
API = "(APIServer pid=1) "
ENGINE = "(EngineCore pid=9) "
HERE = "(RayWorkerProc pid=20) (Worker_TP0 pid=20) "
THERE = "(RayWorkerProc pid=30, ip=10.0.0.2) (Worker_TP1 pid=30) "


class Log:
    """A log, record by record; the clock goes on a second a record."""

    def __init__(self, outer: str = "") -> None:
        self._lines: list[str] = []
        self._outer = outer
        self._second = 0

    def raw(self, *lines: str) -> Log:
        """Lines as they are."""
        self._lines += [self._outer + line for line in lines]
        return self

    def record(self, who: str, level: str, source: str, *lines: str) -> Log:
        """A logger's record; each line repeats the head."""
        self._second += 1
        head = f"{who}{level} 11-30 20:{self._second // 60:02}:{self._second % 60:02} [{source}] "
        return self.raw(*(head + line for line in lines))

    def info(self, who: str, message: str, source: str = "a.py:1") -> Log:
        """An INFO record."""
        return self.record(who, "INFO", source, message)

    def traceback(self, who: str, *exception: str, source: str = "", frames: int = 3) -> Log:
        """A traceback, bare or (with ``source``) by the logger."""
        lines = [
            "Traceback (most recent call last):",
            *(f'  File "/a/b{frame}.py", line {frame}, in c\n    d()'.split("\n") for frame in range(frames)),
        ]
        flat = [line for part in lines for line in ([part] if isinstance(part, str) else part)]
        if source:
            return self.record(who, "ERROR", source, *flat, *exception)
        return self.raw(*(who + line for line in [*flat, *exception]))

    def start(self, arguments: str = "'tensor_parallel_size': 2, 'distributed_executor_backend': 'ray'") -> Log:
        """The beginning of a launch over Ray."""
        self.info(API, f"non-default args: {{'model': '/models/a', {arguments}}}", "api_utils.py:286")
        self.info(
            ENGINE, "Initializing a V1 LLM engine (v0.32.0) with config: model='/models/a', x=1", "core.py:133"
        )
        return self

    def load(self) -> Log:
        """Both ranks load."""
        for rank, who in enumerate((HERE, THERE)):
            self.info(
                who,
                f"world_size=2 rank={rank} local_rank=0 distributed_init_method=tcp://10.0.0.1:5 backend=nccl",
            )
        return self.info(HERE, "Loading weights took 9.00 seconds", "default_loader.py:501")

    def ready(self) -> Log:
        """The server is up."""
        return self.raw("INFO:     Application startup complete.")

    def engine_failed(self) -> Log:
        """What every failed start ends with."""
        return self.traceback(
            API,
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        )

    def engine_dead(self) -> Log:
        """What every engine that dies while it serves ends with."""
        self.record(API, "ERROR", "async_llm.py:546", "AsyncLLM output_handler failed.")
        self.traceback(
            API,
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)",
            source="async_llm.py:546",
        )
        return self.raw("INFO:     Shutting down", "INFO:     Finished server process [1]")

    def source(self, name: str = "serve.log", host: str = "spark-a", role: str = SERVE) -> Source:
        """The log as a source."""
        return Source(name, host, role, ("\n".join(self._lines) + "\n").encode())

    def line_of(self, text: str) -> int:
        """The number of the first line that holds ``text``."""
        return next(number for number, line in enumerate(self._lines, 1) if text in line)
