#!/bin/bash
# Commands from ktune.sh of the RHEL 6 profile powersave-like that no plug-in replaces.

# shellcheck disable=SC2034 # the functions use it
PROFILE=powersave-like
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

# before start and stop
prepare() {
	EXT_PARTITIONS=$(mount | grep -E "type ext(3|4)" | cut -d" " -f1)
	return 0
}

# when the profile is applied
start() {
	[ "$USB_AUTOSUSPEND" = 1 ] && enable_usb_autosuspend
	disable_bluetooth
	enable_wifi_powersave
	remount_partitions commit=600,noatime $EXT_PARTITIONS
	sync
	return 0
}

# when the profile is undone
stop() {
	[ "$USB_AUTOSUSPEND" = 1 ] && disable_usb_autosuspend
	enable_bluetooth
	disable_wifi_powersave
	remount_partitions commit=5 $EXT_PARTITIONS
	return 0
}

# compares; it changes nothing
verify() {
	disable_bluetooth
	enable_wifi_powersave
	return 0
}

process "$@"
