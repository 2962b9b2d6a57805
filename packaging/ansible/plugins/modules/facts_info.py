#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
module: facts_info
short_description: Return hardware, kernel and services of a machine
version_added: 0.1.0
description:
  - Returns what C(fettle facts) reads. It changes nothing.
attributes:
  check_mode:
    support: full
    description: The module changes nothing.
  diff_mode:
    support: none
    description: The module changes nothing.
options:
  names:
    description: Return only facts that begin with these names, such as V(memory) or V(disk.vda.queue_depth).
    type: list
    elements: str
    default: []
  root:
    description: Read another machine from this directory (a sosreport) or archive (C(fettle facts --archive)).
    type: path
extends_documentation_fragment:
  - fettle.tuning.common
"""

EXAMPLES = r"""
- name: Memory
  fettle.tuning.facts_info:
    names: [memory]
  register: machine

- name: Huge pages
  ansible.builtin.debug:
    var: machine.facts.memory.huge_pages
"""

RETURN = r"""
facts:
  description: The JSON document of C(fettle facts).
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fettle.tuning.plugins.module_utils.fettle import COMMON, Fettle


def main():
    module = AnsibleModule(
        argument_spec=dict(COMMON, names={"type": "list", "elements": "str", "default": []}, root={"type": "path"}),
        supports_check_mode=True,
    )
    args = list(module.params["names"])
    if module.params["root"]:
        args += ["--root", module.params["root"]]
    module.exit_json(changed=False, facts=Fettle(module).run("facts", args))


if __name__ == "__main__":
    main()
