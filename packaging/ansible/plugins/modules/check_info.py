#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
module: check_info
short_description: Audit a machine
version_added: 0.1.0
description:
  - Checks the rules of C(fettle check). It changes nothing.
attributes:
  check_mode:
    support: full
    description: The module changes nothing.
  diff_mode:
    support: none
    description: The module changes nothing.
options:
  platforms:
    description: Platforms, such as V(linux) or V(nginx). By default all that the machine has.
    type: list
    elements: str
    default: []
  fail_on:
    description: Fail if there is a finding of this state or a worse one.
    type: str
    choices: [fail, warn, unknown]
  baseline:
    description: An earlier audit on the managed machine. Only new and worse findings count for O(fail_on).
    type: path
  root:
    description: Read another machine from this directory (a sosreport) or archive (C(fettle facts --archive)).
    type: path
  sample:
    description: How long to measure why the machine is slow, such as V(2s). By default it is not measured.
    type: str
    default: "0"
extends_documentation_fragment:
  - fettle.tuning.common
"""

EXAMPLES = r"""
- name: Audit
  fettle.tuning.check_info:
    fail_on: fail
  register: audit
"""

RETURN = r"""
findings:
  description: Results of the rules.
  returned: success
  type: list
  elements: dict
counts:
  description: Number of findings by state.
  returned: success
  type: dict
summary:
  description: The result in one line.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fettle.tuning.plugins.module_utils.fettle import COMMON, Fettle


def main():
    module = AnsibleModule(
        argument_spec=dict(
            COMMON,
            platforms={"type": "list", "elements": "str", "default": []},
            fail_on={"type": "str", "choices": ["fail", "warn", "unknown"]},
            baseline={"type": "path"},
            root={"type": "path"},
            sample={"type": "str", "default": "0"},
        ),
        supports_check_mode=True,
    )
    params = module.params
    args = list(params["platforms"]) + ["--sample", params["sample"]]
    for option, flag in (("fail_on", "--fail-on"), ("baseline", "--baseline"), ("root", "--root")):
        if params[option]:
            args += [flag, params[option]]
    audit = Fettle(module).run("check", args, expected=(0, 3))
    result = {
        "changed": False,
        "findings": audit["findings"],
        "counts": audit["counts"],
        "summary": audit["headline"]["lines"][0],
    }
    if audit["exit_code"] == 3:
        module.fail_json(msg=result["summary"], rc=3, **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
