# SPDX-License-Identifier: Apache-2.0
"""A CrewAI tool that runs an agent's Python code in a kosa8 sandbox instead of on this machine."""
import subprocess

from crewai.tools import BaseTool
from pydantic import BaseModel, Field

KOSA8_FAILED = 125  # kosa8's own exit code: the code did not run


class PythonCode(BaseModel):
    code: str = Field(description="Python source code; what it prints is the result")


class SandboxPython(BaseTool):
    name: str = "run_python"
    description: str = (
        "Runs Python code in an isolated sandbox without a network and returns what it printed. "
        "Files in /workspace stay from one call to the next."
    )
    args_schema: type[BaseModel] = PythonCode
    sandbox: str = "code-runner"
    image: str = "python:3.12-slim"
    timeout_s: float = 60

    def model_post_init(self, context):
        super().model_post_init(context)
        # The same code may answer differently the second time: files change.
        self.cache_function = lambda _args=None, _result=None: False

    def _run(self, code: str) -> str:
        command = ["kosa8", "sandbox", "run", self.sandbox, self.image, "python", "-c", code]
        try:
            done = subprocess.run(command, capture_output=True, timeout=self.timeout_s,
                                  stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            # The client was killed; kosa8 has ended all that it had started in the sandbox.
            return f"Error: no result after {self.timeout_s:g} s; the code was stopped."
        out = done.stdout.decode(errors="replace").strip()
        err = done.stderr.decode(errors="replace").strip()
        if done.returncode == KOSA8_FAILED:
            raise RuntimeError(err)
        if done.returncode != 0:
            return f"Error: exit code {done.returncode}\n{out}\n{err}".strip()
        return out or "(the code printed nothing)"
