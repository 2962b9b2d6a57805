#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
module: prove
short_description: Measure whether a change makes a command faster
version_added: 0.1.0
description:
  - Runs a command or a benchmark with and without a change in random order, as C(fettle prove) does, and restores the
    machine. With O(keep) a change that is better stays.
attributes:
  check_mode:
    support: none
    description: A measurement must change the machine. The task is skipped in check mode.
  diff_mode:
    support: none
    description: The machine is restored.
options:
  profiles:
    description: The change, as profiles.
    type: list
    elements: str
    default: []
  settings:
    description: The change, as settings and their values.
    type: dict
    default: {}
  command:
    description: Command to measure, as a list of words.
    type: list
    elements: str
  bench:
    description: Benchmark of fettle to measure, such as V(disk:randrw).
    type: str
  metric:
    description: What is compared, such as V(time), V(cpu-time), or C(NAME=REGEXP) for a number that the command prints.
    type: str
    default: time
  higher_is_better:
    description: Whether higher values of O(metric) are better.
    type: bool
    default: false
  margin:
    description: Smallest effect that matters, in percent.
    type: str
    default: 2%
  blocks:
    description: Maximum number of blocks of two runs.
    type: int
    default: 80
  budget:
    description: Start no further run after this time.
    type: str
    default: 30m
  expect:
    description: Fail unless this is the verdict.
    type: str
    choices: [faster, slower, better, worse, no-effect]
  keep:
    description: Keep the change if it is better.
    type: bool
    default: false
  force:
    description: Measure at once, without waiting until the machine is idle.
    type: bool
    default: false
extends_documentation_fragment:
  - fettle.tuning.common
  - fettle.tuning.common.writes
"""

EXAMPLES = r"""
- name: Does the profile make the job faster?
  fettle.tuning.prove:
    profiles: [throughput-performance]
    command: [/usr/local/bin/job, --once]
    budget: 10m
  register: proof
"""

RETURN = r"""
verdict:
  description: Verdict of the measurement, V(better), V(worse), V(no-effect) or V(cannot-tell).
  returned: success
  type: str
  sample: no-effect
summary:
  description: The result in words.
  returned: success
  type: list
  elements: str
evidence:
  description: The JSON document of C(fettle prove), a run.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fettle.tuning.plugins.module_utils.fettle import WRITES, Fettle


def main():
    module = AnsibleModule(
        argument_spec=dict(
            WRITES,
            profiles={"type": "list", "elements": "str", "default": []},
            settings={"type": "dict", "default": {}},
            command={"type": "list", "elements": "str"},
            bench={"type": "str"},
            metric={"type": "str", "default": "time"},
            higher_is_better={"type": "bool", "default": False},
            margin={"type": "str", "default": "2%"},
            blocks={"type": "int", "default": 80},
            budget={"type": "str", "default": "30m"},
            expect={"type": "str", "choices": ["faster", "slower", "better", "worse", "no-effect"]},
            keep={"type": "bool", "default": False},
            force={"type": "bool", "default": False},
        ),
        mutually_exclusive=[("profiles", "settings"), ("command", "bench")],
        required_one_of=[("profiles", "settings"), ("command", "bench")],
        supports_check_mode=False,
    )
    params, fettle = module.params, Fettle(module)
    args = fettle.reason() + ["--blocks", str(params["blocks"]), "--budget", params["budget"], "--margin", params["margin"]]
    for name in params["profiles"]:
        args += ["--profile", name]
    for name, value in params["settings"].items():
        args += ["--set", "%s=%s" % (name, value)]
    for option in ("bench", "expect"):
        if params[option]:
            args += ["--" + option, params[option]]
    if not params["bench"]:
        args += ["--metric", params["metric"]]
    for option in ("higher_is_better", "keep", "force"):
        if params[option]:
            args.append("--" + option.replace("_", "-"))
    if params["command"]:
        args += ["--"] + params["command"]
    proof = fettle.run("prove", args)
    verdict = proof["body"]["verdict"]
    kept = params["keep"] and verdict == "better"
    module.exit_json(changed=kept, verdict=verdict, summary=proof["headline"]["lines"], evidence=proof)


if __name__ == "__main__":
    main()
