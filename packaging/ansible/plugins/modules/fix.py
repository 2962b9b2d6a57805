#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
module: fix
short_description: Change what failed rules of the audit find, or restore it
version_added: 0.1.0
description:
  - Makes the changes that C(fettle fix) knows for rules that fail on the machine. M(fettle.tuning.check_info) lists the
    rules. Changes that another tool must make are returned and not made.
  - Values of the running kernel last until the next boot. M(fettle.tuning.settings) sets them at each boot.
attributes:
  check_mode:
    support: full
    description: Runs C(fettle fix --dry-run) or C(fettle undo --dry-run), which change nothing.
  diff_mode:
    support: full
    description: Shows each value before and after.
options:
  rules:
    description: IDs of the rules. By default all that fail, or with O(state=absent) all that were fixed.
    type: list
    elements: str
    default: []
  platforms:
    description: Fix only rules of these platforms. By default of all that the machine has. Not with O(state=absent).
    type: list
    elements: str
    default: []
  state:
    description:
      - V(present) fixes the rules.
      - V(absent) restores what C(fettle fix) changed for O(rules), also when it ran without Ansible. Rules that were
        fixed by the same transaction can be restored only together; the module fails if O(rules) has only some of them.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment:
  - fettle.tuning.common
  - fettle.tuning.common.writes
"""

EXAMPLES = r"""
- name: Fix one rule
  fettle.tuning.fix:
    rules: [T19]
    reason: ticket 4711

- name: Restore its values
  fettle.tuning.fix:
    rules: [T19]
    state: absent
"""

RETURN = r"""
transaction:
  description: Number of the transaction, for C(fettle undo).
  returned: if changed, outside of check mode
  type: int
by_hand:
  description: Changes that another tool or a person must make.
  returned: if O(state=present)
  type: list
  elements: dict
findings:
  description: Results of the rules after the change.
  returned: if changed with O(state=present), outside of check mode
  type: list
  elements: dict
reboot_required:
  description: Whether a value takes effect at the next boot.
  returned: success
  type: bool
settings:
  description: The settings of the plan, written or not. An undo lists only those that it restores.
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
from ansible_collections.fettle.tuning.plugins.module_utils.fettle import WRITES, Fettle, difference, steps


def fix(fettle):
    """Fix the rules, and end the module."""
    module = fettle.module
    args = list(module.params["rules"])
    if module.params["platforms"]:
        args += ["--platform", ",".join(module.params["platforms"])]
    args += ["--dry-run"] if module.check_mode else ["--yes"] + fettle.reason()
    fixed = fettle.run("fix", args)
    applied = fixed.get("applied") or {}
    plan = fixed.get("plan") or {}
    changes = [v for v in steps(plan) if v["written"]]
    result = {
        "changed": bool(changes),
        "settings": steps(applied.get("plan") or plan),
        "by_hand": fixed["by_hand"],
        "diff": difference(changes),
        "reboot_required": fettle.reboot_required(plan if module.check_mode else None),
    }
    if applied:
        result["transaction"] = applied["transaction"]
        result["findings"] = fixed["findings"]
    module.exit_json(**result)


def fixes(fettle):
    """The transactions in force that fixed the rules. A group, such as O16, names the rules O16.*."""
    asked = fettle.module.params["rules"]
    for transaction in fettle.run("history")["transactions"]:
        rules = transaction.get("rules", [])
        others = [r for r in rules if asked and not any(r == a or r.startswith(a + ".") for a in asked)]
        if not transaction["live"] or len(others) == len(rules):
            continue
        if others:
            fettle.module.fail_json(
                msg="transaction %d fixed %s together: name all of them in rules" % (transaction["transaction"], ", ".join(rules))
            )
        yield transaction["transaction"]


def main():
    module = AnsibleModule(
        argument_spec=dict(
            WRITES,
            rules={"type": "list", "elements": "str", "default": []},
            platforms={"type": "list", "elements": "str", "default": []},
            state={"type": "str", "choices": ["present", "absent"], "default": "present"},
        ),
        supports_check_mode=True,
    )
    fettle = Fettle(module)
    if module.params["state"] == "present":
        fix(fettle)
    if module.params["platforms"]:
        module.fail_json(msg="state=absent takes rules, not platforms")
    transactions = list(fixes(fettle))
    if not transactions:
        module.exit_json(changed=False, settings=[], reboot_required=fettle.reboot_required())
    fettle.restore(transactions)


if __name__ == "__main__":
    main()
