# shellcheck shell=sh
# What the helpers of RHEL 6's /etc/tune-profiles/functions did, on today's
# kernels, for the lines of an imported profile that no plug-in can do.
#
# Each helper looks at ACTION: "start" and "stop" write, "verify" compares and
# counts what differs. Old values are kept below STATE until "stop" restores
# them. SYSROOT stands before every path of the machine; tests use it.

: "${SYSROOT:=}"
: "${STATE:=${SYSROOT}/run/fettle-rhel6/${PROFILE:-profile}}"
ACTION=start
WRONG=0

say() { printf '%s: %s\n' "${PROFILE:-profile}" "$*" >&2; }

# differs WHAT: verify has found a wrong value.
differs() {
	WRONG=$((WRONG + 1))
	say "$*"
}

# absent WHAT: there is nothing here to set, which is no fault: a machine without
# a radio has none to switch off. Said on standard output, since TuneD takes what
# stands on the other for an error.
absent() {
	[ "$ACTION" = start ] && say "$* is not on this machine" 2>&1
	return 0
}

# state_file NAME: where a value is kept.
state_file() {
	printf '%s/%s' "$STATE" "$(printf '%s' "$1" | tr '/ ' '__')"
}

# parse_sys FILE: the value; of a choice the word in brackets.
parse_sys() {
	[ -r "$1" ] || return 1
	_text=$(cat "$1") || return 1
	case $_text in
	*\[*\]*) _text=${_text#*\[} && printf '%s\n' "${_text%%\]*}" ;;
	*) printf '%s\n' "$_text" ;;
	esac
}

# save_value NAME VALUE: keeps a value, unless one is kept already.
save_value() {
	[ "$ACTION" = verify ] && return 0
	_file=$(state_file "$1")
	[ -e "$_file" ] && return 0
	(umask 077 && mkdir -p "$STATE" && printf '%s\n' "$2" >"$_file")
}

# restore_value NAME: prints the value kept and forgets it.
restore_value() {
	_file=$(state_file "$1")
	[ -r "$_file" ] || return 1
	cat "$_file" && rm -f "$_file"
}

get_stored_sys() { cat "$(state_file "$1")" 2>/dev/null; }

save_sys() { _value=$(parse_sys "$2") && save_value "$1" "$_value"; }

# set_sys FILE VALUE: writes, or compares under verify.
set_sys() {
	[ -e "$1" ] || return 0
	if [ "$ACTION" = verify ]; then
		_value=$(parse_sys "$1")
		[ "$_value" = "$2" ] || differs "$1 is $_value, not $2"
		return 0
	fi
	printf '%s\n' "$2" 2>/dev/null >"$1" || say "$1 does not accept $2"
}

# save_set_sys NAME FILE VALUE: under "stop" the value kept goes before VALUE,
# so that a pair such as enable_x in start and disable_x in stop ends where it
# began.
save_set_sys() {
	if [ "$ACTION" = stop ]; then
		restore_sys "$1" "$2" "$3"
		return 0
	fi
	[ -e "$2" ] && save_sys "$1" "$2"
	set_sys "$2" "$3"
}

# restore_sys NAME FILE [OTHERWISE]
restore_sys() {
	_old=$(restore_value "$1") || _old=${3:-}
	[ -n "$_old" ] && [ -e "$2" ] && set_sys "$2" "$_old"
	return 0
}

# each_file PATTERN... names what there is, one in a line.
each_file() {
	for _each in "$@"; do
		[ -e "$_each" ] && printf '%s\n' "$_each"
	done
	return 0
}

# set_all VALUE FILE... and restore_all FILE... by the files' own names.
set_all() {
	_wanted=$1
	shift
	_any=
	for _one in "$@"; do
		[ -e "$_one" ] || continue
		_any=1
		save_set_sys "$_one" "$_one" "$_wanted"
	done
	[ -n "$_any" ] || absent "$1"
}

restore_all() {
	for _one in "$@"; do
		restore_sys "$_one" "$_one"
	done
}

# --- processor and memory ---

set_cpu_governor() {
	for _policy in "$SYSROOT"/sys/devices/system/cpu/cpu[0-9]*/cpufreq; do
		[ -d "$_policy" ] || continue
		_governor=$1
		if [ "$1" = ondemand ] && ! grep -qw ondemand "$_policy/scaling_available_governors" 2>/dev/null; then
			_governor=schedutil # what ondemand became where the driver has no ondemand
			grep -qw schedutil "$_policy/scaling_available_governors" 2>/dev/null || _governor=powersave
		fi
		save_set_sys "$_policy/scaling_governor" "$_policy/scaling_governor" "$_governor"
	done
}

restore_cpu_governor() { restore_all "$SYSROOT"/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; }

# The kernel lost this knob in Linux 3.5.
enable_cpu_multicore_powersave() { absent /sys/devices/system/cpu/sched_mc_power_savings; }
disable_cpu_multicore_powersave() { :; }

_thp() { printf '%s' "$SYSROOT/sys/kernel/mm/transparent_hugepage/enabled"; }
set_transparent_hugepages() { set_all "$1" "$(_thp)"; }
enable_transparent_hugepages() { set_transparent_hugepages always; }
disable_transparent_hugepages() { set_transparent_hugepages never; }
restore_transparent_hugepages() { restore_all "$(_thp)"; }

# --- disks ---

_disks() {
	each_file "$SYSROOT"/sys/block/sd* "$SYSROOT"/sys/block/hd* "$SYSROOT"/sys/block/vd* \
		"$SYSROOT"/sys/block/xvd* "$SYSROOT"/sys/block/dasd* "$SYSROOT"/sys/block/dm-* "$SYSROOT"/sys/block/nvme*n*
}

# _queues PATTERN: the scheduler files of a list of patterns with braces.
_queues() {
	_rest=$1
	case $_rest in
	*\{*\}*)
		_head=${_rest%%\{*}
		_tail=${_rest#*\}}
		_inner=${_rest#*\{}
		_inner=${_inner%%\}*},
		while [ -n "$_inner" ]; do
			# shellcheck disable=SC2086 # the pattern is to be expanded
			each_file ${SYSROOT}${_head}${_inner%%,*}${_tail}
			_inner=${_inner#*,}
		done
		;;
	*)
		# shellcheck disable=SC2086 # the pattern is to be expanded
		each_file ${SYSROOT}${_rest}
		;;
	esac
}

# set_elevator PATTERN NAME, and the old order NAME PATTERN.
set_elevator() {
	case $1 in */*) _pattern=$1 _elevator=$2 ;; *) _pattern=$2 _elevator=$1 ;; esac
	case $_elevator in
	deadline) _elevator=mq-deadline ;;
	cfq | as | anticipatory) _elevator=bfq ;;
	noop) _elevator=none ;;
	esac
	for _queue in $(_queues "$_pattern"); do
		save_set_sys "$_queue" "$_queue" "$_elevator"
	done
}

restore_elevator() {
	case ${1:-} in */*) _pattern=$1 ;; *) _pattern=${2:-} ;; esac
	for _queue in $(_queues "$_pattern"); do
		restore_sys "$_queue" "$_queue"
	done
}

# multiply_disk_readahead FACTOR, which may have a fraction.
multiply_disk_readahead() {
	[ "$ACTION" = verify ] && return 0 # it depends on what was there
	for _disk in $(_disks); do
		_ahead=$_disk/queue/read_ahead_kb
		_old=$(parse_sys "$_ahead") || continue
		save_set_sys "$_ahead" "$_ahead" "$(awk -v o="$_old" -v by="$1" 'BEGIN { printf "%d", o * by }')"
	done
}

set_disk_readahead() {
	for _disk in $(_disks); do
		save_set_sys "$_disk/queue/read_ahead_kb" "$_disk/queue/read_ahead_kb" "$1"
	done
}

restore_disk_readahead() {
	for _disk in $(_disks); do
		restore_sys "$_disk/queue/read_ahead_kb" "$_disk/queue/read_ahead_kb"
	done
}

set_disk_alpm() {
	_policy=$1
	[ "$_policy" = min_power ] && _policy=med_power_with_dipm # min_power loses data on some disks
	for _port in "$SYSROOT"/sys/class/scsi_host/*/link_power_management_policy; do
		[ -e "$_port" ] || continue
		# Bits 18 and 21: an external or hot-plug port, which has to notice a disk.
		_bits=$(cat "${_port%/*}/ahci_port_cmd" 2>/dev/null) || continue
		[ $((0x${_bits:-0} & 0x240000)) -eq 0 ] || continue
		save_set_sys "$_port" "$_port" "$_policy"
	done
}

set_sata_alpm() { set_disk_alpm "$@"; }
set_alpm() { set_disk_alpm "$@"; }
restore_disk_alpm() { restore_all "$SYSROOT"/sys/class/scsi_host/*/link_power_management_policy; }

_hdparm() {
	if ! command -v hdparm >/dev/null 2>&1; then
		say "hdparm is not installed: install it, or disks keep their power settings"
		return 0
	fi
	[ "$ACTION" = verify ] && return 0 # a drive tells its APM level, but not its timer
	for _disk in "$SYSROOT"/dev/sd[a-z] "$SYSROOT"/dev/hd[a-z]; do
		[ -e "$_disk" ] && { hdparm -q "$1" "$2" "$_disk" || say "$_disk does not accept hdparm $1 $2"; }
	done
	return 0
}

set_disk_apm() { _hdparm -B "$1"; }
set_disk_spindown() { _hdparm -S "$1"; }

# CFQ's quantum went with CFQ in Linux 5.0.
set_disk_scheduler_quantum() { absent "/sys/block/*/queue/iosched/quantum"; }
restore_disk_scheduler_quantum() { :; }

# Write barriers are never switched off: a power failure would cost data.
disable_disk_barriers() { say "write barriers stay on: without them a power failure costs data"; }
enable_disk_barriers() { :; }

# remount_partitions OPTIONS MOUNT...
remount_partitions() {
	_options=$(printf '%s' "$1" | tr ',' '\n' | grep -vxE 'nobarrier|barrier=0|barrier=none' | paste -sd , -)
	[ "$_options" = "$1" ] || disable_disk_barriers
	shift
	[ -n "$_options" ] || return 0
	for _mount in "$@"; do
		if [ "$ACTION" = verify ]; then
			for _option in $(printf '%s' "$_options" | tr ',' ' '); do
				case $_option in barrier | barrier=1 | commit=5) continue ;; esac # the defaults do not show
				awk -v m="$_mount" -v o="$_option" '($1 == m || $2 == m) && index("," $4 ",", "," o ",") { ok = 1 } END { exit !ok }' \
					"$SYSROOT/proc/mounts" || differs "$_mount is not mounted with $_option"
			done
		else
			mount -o "remount,$_options" "$_mount" || say "$_mount cannot be remounted with $_options"
		fi
	done
}

remount_all_no_rootboot_partitions() {
	[ -n "${1:-}" ] || return 0
	# shellcheck disable=SC2046 # one word for each mount; white space in them is \040
	remount_partitions "$1" $(awk '$1 ~ "^/dev/" && $2 != "/" && $2 !~ "^/boot" { print $2 }' "$SYSROOT/proc/mounts")
}

# --- network and radio ---

# _rfkill TYPE STATE: 1 blocks.
_rfkill() {
	_found=
	for _switch in "$SYSROOT"/sys/class/rfkill/rfkill*; do
		[ "$(cat "$_switch/type" 2>/dev/null)" = "$1" ] || continue
		_found=1
		save_set_sys "$_switch/soft" "$_switch/soft" "$2"
	done
	[ -n "$_found" ] || absent "a radio of type $1"
}

disable_bluetooth() { _rfkill bluetooth 1; }
enable_bluetooth() { _rfkill bluetooth 0; }
disable_wifi() { _rfkill wlan 1; }
enable_wifi() { _rfkill wlan 0; }

_wifi_powersave() {
	_found=
	for _radio in "$SYSROOT"/sys/class/net/*/phy80211; do
		[ -e "$_radio" ] || continue
		_found=1
		_device=${_radio%/*}
		_device=${_device##*/}
		_now=$(iw dev "$_device" get power_save 2>/dev/null)
		_now=${_now##* }
		_wanted=$1
		case $ACTION in
		verify)
			[ "$_now" = "$_wanted" ] || differs "$_device has power saving $_now, not $_wanted"
			continue
			;;
		start) [ -z "$_now" ] || save_value "wifi_powersave_$_device" "$_now" ;;
		stop) _wanted=$(restore_value "wifi_powersave_$_device") || _wanted=$1 ;;
		esac
		iw dev "$_device" set power_save "$_wanted" || say "$_device: iw cannot set power saving $_wanted"
	done
	[ -n "$_found" ] || absent "a wireless network device"
}

enable_wifi_powersave() { _wifi_powersave on; }
disable_wifi_powersave() { _wifi_powersave off; }

# --- other devices ---

# The kernel polls removable drives itself since Linux 2.6.38; -1 is its default.
disable_cd_polling() { set_all 0 "$SYSROOT"/sys/block/sr*/events_poll_msecs; }
enable_cd_polling() { set_all -1 "$SYSROOT"/sys/block/sr*/events_poll_msecs; }

enable_usb_autosuspend() { set_all auto "$SYSROOT"/sys/bus/usb/devices/*/power/control; }
disable_usb_autosuspend() { set_all on "$SYSROOT"/sys/bus/usb/devices/*/power/control; }

_ac97() { printf '%s' "$SYSROOT/sys/module/snd_ac97_codec/parameters/power_save"; }
enable_snd_ac97_powersave() { set_all 1 "$(_ac97)"; }
disable_snd_ac97_powersave() { set_all 0 "$(_ac97)"; }
restore_snd_ac97_powersave() { restore_all "$(_ac97)"; }

_hda() { printf '%s' "$SYSROOT/sys/module/snd_hda_intel/parameters/power_save"; }
set_hda_intel_powersave() { set_all "$1" "$(_hda)"; }
enable_snd_powersave() { set_hda_intel_powersave 10; }
disable_snd_powersave() { set_hda_intel_powersave 0; }
restore_hda_intel_powersave() { restore_all "$(_hda)"; }
restore_snd_powersave() { restore_hda_intel_powersave; }

# set_radeon_powersave default|auto|low|mid|high|dynpm|dpm-battery|dpm-balanced|dpm-performance
set_radeon_powersave() {
	for _card in "$SYSROOT"/sys/class/drm/card[0-9]*/device; do
		[ -e "$_card/power_method" ] || continue
		case $1 in
		dynpm) save_set_sys "$_card/power_method" "$_card/power_method" dynpm ;;
		dpm-*)
			save_set_sys "$_card/power_method" "$_card/power_method" dpm
			save_set_sys "$_card/power_dpm_state" "$_card/power_dpm_state" "${1#dpm-}"
			;;
		*)
			save_set_sys "$_card/power_method" "$_card/power_method" profile
			save_set_sys "$_card/power_profile" "$_card/power_profile" "$1"
			;;
		esac
	done
}

# rsyslog has not waited for the disk after each message since its version 3.
disable_logs_syncing() { :; }
restore_logs_syncing() { :; }

# process start|stop|restart|verify [full_rollback|ignore_missing]
process() {
	case ${1:-} in
	start | stop)
		ACTION=$1
		prepare "$@"
		"$1"
		;;
	restart)
		process stop && process start
		;;
	verify)
		ACTION=verify
		verify
		[ "$WRONG" -eq 0 ]
		;;
	*)
		printf 'usage: %s start|stop|restart|verify\n' "$0" >&2
		return 2
		;;
	esac
}
