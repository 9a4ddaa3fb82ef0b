# SPDX-License-Identifier: Apache-2.0
"""Bad input: one clear error, the right exit code, nothing half made."""
import os
import subprocess

from harness import BUSYBOX, KOSA8, SMALL, Home, check, equal

HOME = "own"
SANDBOX = True


def setup(t):
    t.home("sandbox", "pull", t.box, BUSYBOX)
    t.before = snapshot(t)


def snapshot(t):
    return (t.home.files("sandboxes"), t.home.files("images"), t.home.files("templates"),
            [(r["name"], r["state"]) for r in t.home.rows("sandbox", "ls")])


def refused(t, code, *needles, args, **more):
    result = t.home.refused(code, *needles, args=args, **more)
    equal(snapshot(t), t.before, f"what exists after {result}")
    return result


def test_unknown_sandbox_names_the_nearest(t):
    for command in (["sandbox", "inspect"], ["sandbox", "stop"], ["checkpoint"], ["sandbox", "rm"],
                    ["sandbox", "start"], ["checkpoint", "ls"]):
        refused(t, 1, "inputt", "input", args=[*command, "inputt"])
    refused(t, 125, "inputt", "input", args=["sandbox", "run", "inputt", BUSYBOX, "true"])
    refused(t, 1, "inputt", args=["rewind", "inputt", "--yes"])


def test_invalid_names(t):
    for name in ("../x", "a/b", "", "x" * 300, "Upper", "new\nline", ".dot", "ls", "rm", "diff",
                 "a b", "ü"):
        result = t.home.any("sandbox", "create", *SMALL, "--", name)
        check(result.code in (1, 2) and not result.out, f"{name!r}: {result}")
        check(result.errors.startswith("kosa8: "), f"{name!r}: {result}")
        equal(snapshot(t), t.before, f"after {name!r}")
    refused(t, 2, args=["sandbox", "create", "-rf"])


def test_taken_name(t):
    refused(t, 1, t.box, args=["sandbox", "create", t.box, *SMALL])


def test_more_than_the_host_has(t):
    refused(t, 1, "memory", args=["sandbox", "create", "big", "--memory", "99999999"])
    refused(t, 1, "cpu", args=["sandbox", "create", "big", "--cpus", "60"])


def test_values_that_are_none(t):
    for flags in (["--memory", "12x"], ["--memory", "-5"], ["--memory", "0"], ["--cpus", "0"],
                  ["--cpus", "1.5"], ["--disk", "99999999999999999999"], ["--memory", ""],
                  ["--env", "=x"]):
        result = t.home.any("sandbox", "create", "odd", *flags)
        check(result.code in (1, 2) and result.errors.startswith("kosa8: "), f"{flags}: {result}")
        equal(snapshot(t), t.before, f"after {flags}")


def test_wrong_usage(t):
    for args, needle in ((["sandbocks", "ls"], "sandbox"), (["sandbox", "creat", "x"], "create"),
                         (["sandbox", "create", "x", "--memmory", "512"], "memory"),
                         (["sandbox", "create"], "name"), (["sandbox", "run", t.box], "image"),
                         (["rewind"], "name"), (["sandbox", "ls", "extra"], "")):
        refused(t, 2, needle, args=args)
    result = t.home.any()
    check(result.code in (0, 2), f"no arguments at all: {result}")


def test_help(t):
    for args in (["--help"], ["sandbox", "--help"], ["sandbox", "run", "--help"], ["help"]):
        result = t.home(*args)
        check("sandbox" in result.text and not result.err, f"{result}")


def test_no_such_image(t):
    for image in ("nosuchimage", "nosuchimage:1.0", f"{os.environ['KOSA8_E2E_REGISTRY']}/no/such:1"):
        refused(t, 1, "no", args=["sandbox", "pull", t.box, image])
        refused(t, 125, args=["sandbox", "run", t.box, image, "true"])


def test_image_references_that_are_none(t):
    for image in ("UPPER", "a//b", "x:", "x@sha256:short", "-x", "a" * 300, "x:" + "t" * 129,
                  "http://example.com/x"):
        result = t.home.any("sandbox", "pull", t.box, "--", image)
        check(result.code in (1, 2) and result.errors.startswith("kosa8: "), f"{image!r}: {result}")
        equal(snapshot(t), t.before, f"after {image!r}")


def test_an_image_for_another_machine(t):
    image = f"{os.environ['KOSA8_E2E_REGISTRY']}/test/arm"
    refused(t, 1, "arm64", args=["sandbox", "pull", t.box, image])


def test_registry_down(t):
    import socket
    s = socket.socket()
    s.bind(("127.0.0.1", 0))  # bound, not listening: refused
    refused(t, 1, f"127.0.0.1:{s.getsockname()[1]}",
            args=["sandbox", "pull", t.box, f"127.0.0.1:{s.getsockname()[1]}/x"])
    s.close()


def test_no_such_label(t):
    refused(t, 1, "nolabel", args=["rewind", t.box, "--to", "nolabel", "--yes"])
    refused(t, 1, "nolabel", args=["checkpoint", "rm", t.box, "nolabel"])
    refused(t, 1, "checkpoint", args=["rewind", t.box, "--yes"])


def test_arguments_that_are_too_long(t):
    result = t.home.any("sandbox", "run", t.box, BUSYBOX, "echo", *["x" * 100000] * 3)
    check(result.code == 125 and result.errors.startswith("kosa8: "), f"{str(result)[:300]}")
    equal(t.home.sh(t.box, "echo fine"), "fine")


def test_state_directory_that_is_none(t):
    path = os.path.join(t.folder, "file")
    with open(path, "w") as f:
        f.write("x")
    Home(path).refused(1, path, args=["sandbox", "create", "x", *SMALL])
    open_to_all = os.path.join(t.folder, "open")
    os.mkdir(open_to_all)
    os.chmod(open_to_all, 0o777)
    Home(open_to_all).refused(1, open_to_all, args=["sandbox", "create", "x", *SMALL])
    equal(os.listdir(open_to_all), [], "nothing was put into a folder that others can write to")


def test_a_listing_needs_no_state_directory(t):
    path = os.path.join(t.folder, "none")
    result = Home(path).any("sandbox", "ls")
    check(result.code == 0, f"{result}")


def test_stdout_that_is_full(t):
    with open("/dev/full", "w") as full:
        result = t.home.any("sandbox", "ls", stdout=full)
    check(result.code == 1 and result.errors.startswith("kosa8: "), f"{result}")


def test_closed_standard_streams(t):
    done = subprocess.run(["bash", "-c", f"'{KOSA8}' sandbox ls <&- 2>&- | cat"], env=t.home.env,
                          capture_output=True, timeout=20)
    check(t.box.encode() in done.stdout, f"{done}")


def test_wrong_settings_of_the_environment(t):
    t.home.refused(1, args=["sandbox", "create", "x", *SMALL], env={"KOSA8_ACCEL": "warp"})
    equal(snapshot(t), t.before)
