"""Prints, for a shell, the environment that `ray start` needs so that Spark can run on Ray.

    eval "$(python -m spark_bridge.java_env)"; ray start --head

Ray's processes have to inherit it, because Spark's executors are Java actors.
"""

from __future__ import annotations

import shlex
import sys

from spark_bridge.java import JavaError, java_environment


def main() -> int:
    """Print the commands that set JAVA_HOME and PATH; the exit code is 1 if there is no Java for Spark."""
    try:
        variables = java_environment()
    except JavaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.writelines(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
