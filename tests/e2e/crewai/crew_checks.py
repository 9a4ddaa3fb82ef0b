# SPDX-License-Identifier: Apache-2.0
"""The CrewAI example with the real crewai and a scripted model. Run by test_crewai.py with the
python of a virtual environment:  crew_checks.py CASE  prints one JSON object.
"""
import json
import os
import subprocess
import sys
import threading

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_DISABLE_TRACKING="true",
                  OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false")
EXAMPLE = os.environ["KOSA8_EXAMPLE"]
sys.path.insert(0, EXAMPLE)

import crewai.llms.base_llm  # noqa: E402
from crewai import Crew, Process  # noqa: E402

import crew  # noqa: E402
from sandbox_tool import SandboxPython  # noqa: E402

SANDBOX = os.environ["KOSA8_SANDBOX"]


class ScriptedLLM(crewai.llms.base_llm.BaseLLM):
    """A model that wants to run the next code of its script, and answers with what came back.

    It speaks the text protocol that crewai uses with models that have no function calling: it sees
    the tool's description in the prompt, names tool and input, and gets an observation.
    """
    codes: list = []
    prompts: list = []

    def call(self, messages, tools=None, callbacks=None, available_functions=None, **_):
        self.prompts.append(messages)
        asked = messages[0]["content"]
        turns = [m["content"] for m in messages if m["role"] == "assistant"]
        if turns and "Observation:" in turns[-1]:
            observed = turns[-1].rsplit("Observation:", 1)[1].strip()
            return f"Thought: I now know the answer.\nFinal Answer: {observed}"
        if "Tool Name: run_python" not in asked:
            return "Thought: I have no tool.\nFinal Answer: no tool was offered"
        code = self.codes.pop(0)
        return ("Thought: I should run code.\nAction: run_python\n"
                f"Action Input: {json.dumps({'code': code})}")


def scripted(*codes):
    return ScriptedLLM(model="scripted", codes=list(codes), prompts=[])


def tool(**more):
    return SandboxPython(sandbox=SANDBOX, **more)


def answer():
    llm = scripted("print(6*7)")
    result = crew.make_crew(llm, "What is 6 times 7?", tool()).kickoff()
    return {"answer": result.raw, "calls": len(llm.prompts)}


def error():
    llm = scripted("print('before'); raise ValueError('no such luck')")
    return {"answer": crew.make_crew(llm, "Try it", tool()).kickoff().raw}


TICK = """
import time
while True:
    with open('/workspace/tick', 'a') as f:
        f.write('x')
    time.sleep(0.05)
"""


def timeout():
    """The code runs (the tick file grows), then the tool's limit ends it (it grows no more)."""
    grown = []

    def watch():
        code = ("import os, time\n"
                "while not os.path.exists('/workspace/tick') or os.path.getsize('/workspace/tick') < 3:\n"
                "    time.sleep(0.05)\n"
                "print('grows')")
        grown.append(tool(timeout_s=30)._run(code))

    watcher = threading.Thread(target=watch)
    watcher.start()
    result = crew.make_crew(scripted(TICK), "Never end", tool(timeout_s=8)).kickoff().raw
    watcher.join()
    after = tool()._run(
        "import os, time\n"
        "a = os.path.getsize('/workspace/tick'); time.sleep(1); b = os.path.getsize('/workspace/tick')\n"
        "print('still' if a == b else 'grows')")
    return {"answer": result, "during": grown[0], "after": after}


def rewind():
    """Two tasks of one crew; between them the sandbox goes back to its checkpoint."""
    look = "import os; print('left' if os.path.exists('/workspace/left') else 'clean')"
    llm = scripted("open('/workspace/left', 'w').write('x')\n" + look, look)
    agent = crew.make_agent(llm, tool())

    def back(_output):
        subprocess.run(["kosa8", "rewind", SANDBOX, "--to", "clean", "--yes"], check=True,
                       stdout=subprocess.DEVNULL)

    tasks = [crew.make_task("Leave a file", agent, callback=back), crew.make_task("Look", agent)]
    result = Crew(agents=[agent], tasks=tasks, process=Process.sequential).kickoff()
    return {"answers": [output.raw for output in result.tasks_output]}


if __name__ == "__main__":
    cases = {"answer": answer, "error": error, "timeout": timeout, "rewind": rewind}
    outcome = cases[sys.argv[1]]()
    print("\n" + json.dumps(outcome))
