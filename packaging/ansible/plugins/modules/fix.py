#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: fix
short_description: Change what failed rules of the audit find
version_added: 0.1.0
description:
  - Makes the changes that C(fettle fix) knows for rules that fail on the machine. M(fettle.tuning.check_info) lists the
    rules. Changes that another tool must make are returned and not made.
  - M(fettle.tuning.profile) with O(fettle.tuning.profile#module:state=absent) restores the values.
attributes:
  check_mode:
    support: full
    description: Runs C(fettle fix --dry-run), which changes nothing.
  diff_mode:
    support: full
    description: Shows each value before and after.
options:
  rules:
    description: IDs of the rules. By default all that fail.
    type: list
    elements: str
    default: []
  platforms:
    description: Fix only rules of these platforms. By default of all that the machine has.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - fettle.tuning.common
  - fettle.tuning.common.writes
"""

EXAMPLES = r"""
- name: Fix one rule
  fettle.tuning.fix:
    rules: [T19]
    reason: ticket 4711
"""

RETURN = r"""
transaction:
  description: Number of the transaction, for C(fettle undo).
  returned: if changed, outside of check mode
  type: int
by_hand:
  description: Changes that another tool or a person must make.
  returned: success
  type: list
  elements: dict
findings:
  description: Results of the rules after the change.
  returned: if changed, outside of check mode
  type: list
  elements: dict
reboot_required:
  description: Whether a value takes effect at the next boot.
  returned: success
  type: bool
values:
  description: The settings of the plan, written or not.
  returned: success
  type: list
  elements: dict
  contains:
    setting:
      description: Name of the setting.
      type: str
      sample: sysctl:vm.swappiness
    before:
      description: Value before. It is null if the setting did not exist or could not be read.
      type: str
    after:
      description: Requested value. It is null if the setting is removed.
      type: str
    written:
      description: Whether it is written, or would be in check mode.
      type: bool
    reboot:
      description: Whether it takes effect at the next boot.
      type: bool
    verdict:
      description: Verdict of fettle, such as V(ok), V(unsupported) or V(overridden).
      type: str
    why:
      description: Reason for the verdict.
      type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fettle.tuning.plugins.module_utils.fettle import WRITES, Fettle, difference, values


def main():
    module = AnsibleModule(
        argument_spec=dict(
            WRITES,
            rules={"type": "list", "elements": "str", "default": []},
            platforms={"type": "list", "elements": "str", "default": []},
        ),
        supports_check_mode=True,
    )
    fettle = Fettle(module)
    args = list(module.params["rules"])
    if module.params["platforms"]:
        args += ["--platform", ",".join(module.params["platforms"])]
    args += ["--dry-run"] if module.check_mode else ["--yes"] + fettle.reason()
    fixed = fettle.run("fix", args)
    applied = fixed.get("applied") or {}
    plan = fixed.get("plan") or {}
    changes = [v for v in values(plan) if v["written"]]
    result = {
        "changed": bool(changes),
        "values": values(applied.get("plan") or plan),
        "by_hand": fixed["by_hand"],
        "diff": difference(changes),
        "reboot_required": fettle.reboot_required(plan if module.check_mode else None),
    }
    if applied:
        result["transaction"] = applied["transaction"]
        result["findings"] = fixed["findings"]
    module.exit_json(**result)


if __name__ == "__main__":
    main()
