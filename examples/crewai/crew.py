# SPDX-License-Identifier: Apache-2.0
"""A crew of one agent that answers questions by running Python in a kosa8 sandbox.

    python crew.py "What is the 40th Fibonacci number?"

The model is CrewAI's choice of provider, named in MODEL (default gpt-4o-mini), with its key in the
environment as CrewAI wants it.
"""
import os
import sys

from crewai import Agent, Crew, Process, Task

from sandbox_tool import SandboxPython


def make_agent(llm, tool):
    return Agent(
        role="Analyst",
        goal="Answer questions with results that were computed, not guessed",
        backstory="You write short Python programs and trust only what they print.",
        tools=[tool],
        llm=llm,
        max_iter=5,
    )


def make_task(question, agent, callback=None):
    return Task(
        description=question,
        expected_output="The answer, in one line",
        agent=agent,
        callback=callback,
    )


def make_crew(llm, question, tool=None):
    agent = make_agent(llm, tool or SandboxPython())
    return Crew(agents=[agent], tasks=[make_task(question, agent)], process=Process.sequential)


if __name__ == "__main__":
    asked = " ".join(sys.argv[1:]) or "What is 6 times 7?"
    print(make_crew(os.environ.get("MODEL", "gpt-4o-mini"), asked).kickoff())
