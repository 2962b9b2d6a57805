#!/bin/sh
. /etc/tune-profiles/functions
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
stop() {
	enable_bluetooth
	restore_cpu_governor
	restore_elevator "/sys/block/{sd,vd}*/queue/scheduler"
	restore_disk_readahead
	restore_transparent_hugepages
	return 0
}
process $@
