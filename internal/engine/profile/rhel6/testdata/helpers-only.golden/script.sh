#!/bin/bash
# Commands from ktune.sh of the RHEL 6 profile helpers-only that no plug-in replaces.

# shellcheck disable=SC2034 # the functions use it
PROFILE=helpers-only
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

# before start and stop
prepare() {
	return 0
}

# when the profile is applied
start() {
	disable_bluetooth
	if [ -n "$ON_BATTERY" ]; then
		set_cpu_governor ondemand
		set_elevator "/sys/block/{sd,vd}*/queue/scheduler" deadline
		multiply_disk_readahead 0.5
		set_transparent_hugepages never
	fi
	return 0
}

# when the profile is undone
stop() {
	enable_bluetooth
	restore_cpu_governor
	restore_elevator "/sys/block/{sd,vd}*/queue/scheduler"
	restore_disk_readahead
	restore_transparent_hugepages
	return 0
}

# compares; it changes nothing
verify() {
	disable_bluetooth
	return 0
}

process "$@"
