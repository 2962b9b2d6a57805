# SPDX-License-Identifier: Apache-2.0
"""Documentation of the options that all modules share."""


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  executable:
    description: Path of the program C(fettle), or its name if it is in the search path.
    type: str
    default: fettle
  state_dir:
    description: Directory of fettle's journal. By default C(/var/lib/fettle).
    type: path
requirements:
  - fettle on the managed machine
author:
  - The fettle authors (!UNKNOWN)
"""

    WRITES = r"""
options:
  reason:
    description: Reason for the change. It is kept in fettle's journal and in the system log.
    type: str
    default: ansible
"""

    TUNES = r"""
options:
  profile_dirs:
    description: Additional directories of profiles. Later ones take precedence.
    type: list
    elements: path
    default: []
  persist:
    description:
      - Apply the values again at boot. This enables fettle's unit and needs systemd.
      - If V(false), an enabled unit stays enabled.
    type: bool
    default: true
  take_over:
    description:
      - Stop another tuner that is in force, such as TuneD. Undoing the change starts it again.
      - If V(false), the module fails if there is one.
    type: bool
    default: false
  atomic:
    description: Restore all values if the kernel rejects one.
    type: bool
    default: false
"""
