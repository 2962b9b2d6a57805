#!/bin/sh
. /etc/tune-profiles/functions
EXT_PARTITIONS=$(mount | grep -E "type ext(3|4)" | cut -d" " -f1)
start() {
	[ "$USB_AUTOSUSPEND" = 1 ] && enable_usb_autosuspend
	set_cpu_governor ondemand
	enable_cpu_multicore_powersave
	set_disk_alpm min_power
	set_disk_apm 128
	set_disk_spindown 6
	disable_cd_polling
	disable_bluetooth
	enable_wifi_powersave
	enable_snd_ac97_powersave
	set_hda_intel_powersave 10
	set_radeon_powersave auto
	disable_logs_syncing
	remount_partitions commit=600,noatime $EXT_PARTITIONS
	sync
	return 0
}
stop() {
	[ "$USB_AUTOSUSPEND" = 1 ] && disable_usb_autosuspend
	restore_cpu_governor
	disable_cpu_multicore_powersave
	set_disk_alpm max_performance
	set_disk_apm 255
	set_disk_spindown 0
	enable_cd_polling
	enable_bluetooth
	disable_wifi_powersave
	restore_snd_ac97_powersave
	restore_hda_intel_powersave
	set_radeon_powersave default
	restore_logs_syncing
	remount_partitions commit=5 $EXT_PARTITIONS
	return 0
}
process $@
