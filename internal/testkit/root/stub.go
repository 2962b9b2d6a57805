package root

import (
	"os"
	"path/filepath"
	"strings"
)

// Separators in the log that stubs write: one record per call, and separated arguments, so that
// spaces and newlines in arguments are preserved.
const unitSeparator, recordSeparator = "\x1f", "\x1e"

// stub returns a program that appends its name and arguments to the file log with one write,
// and then runs body.
func stub(log, body string) string {
	return `#!/bin/sh
call=${0##*/}
for argument; do call=$call$(printf '\037.')$argument; done
printf '%s\036' "$call" >>'` + log + `'
` + body + "\n"
}

// Calls returns the calls of the stubs, in order: name, then arguments.
func (r *Root) Calls() ([][]string, error) {
	data, err := os.ReadFile(filepath.Join(r.share, "calls"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var calls [][]string
	for _, record := range strings.SplitAfter(string(data), recordSeparator) {
		if record = strings.TrimSuffix(record, recordSeparator); record != "" {
			calls = append(calls, strings.Split(record, unitSeparator+"."))
		}
	}
	return calls, nil
}

// TunerStubs returns stubs of the programs that TuneD's plug-ins run. Their answers describe a
// machine with the devices of NewMachine: changeable network features and rings, a disk that
// supports APM, bare metal.
func TunerStubs() map[string]string {
	return map[string]string{
		"ethtool":                ethtoolAnswers,
		"hdparm":                 hdparmAnswers,
		"virt-what":              "",
		"modprobe":               "",
		"modinfo":                `printf 'filename: /lib/modules/%s.ko\n' "$1"`,
		"systemctl":              `case $1 in is-active|is-enabled) echo inactive; exit 3;; esac`,
		"grub2-mkconfig":         "",
		"grub2-editenv":          "",
		"grub-mkconfig":          "",
		"x86_energy_perf_policy": energyPolicy,
		"rpm-ostree":             "exit 1",
	}
}

const ethtoolAnswers = `case $1 in
-k|--show-features) cat <<'E'
Features for eth0:
rx-checksumming: on
tx-checksumming: on
scatter-gather: on
tcp-segmentation-offload: on
generic-segmentation-offload: on
generic-receive-offload: on
large-receive-offload: off [fixed]
ntuple-filters: off
E
;;
-c|--show-coalesce) cat <<'E'
Coalesce parameters for eth0:
Adaptive RX: on  TX: off
rx-usecs: 3
rx-frames: 0
tx-usecs: 0
tx-frames: 0
E
;;
-g|--show-ring) cat <<'E'
Ring parameters for eth0:
Pre-set maximums:
RX:		4096
RX Mini:	n/a
RX Jumbo:	n/a
TX:		4096
Current hardware settings:
RX:		256
RX Mini:	n/a
RX Jumbo:	n/a
TX:		256
E
;;
-a|--show-pause) cat <<'E'
Pause parameters for eth0:
Autonegotiate:	on
RX:		on
TX:		on
E
;;
-l|--show-channels) cat <<'E'
Channel parameters for eth0:
Pre-set maximums:
RX:		n/a
TX:		n/a
Other:		n/a
Combined:	8
Current hardware settings:
RX:		n/a
TX:		n/a
Other:		n/a
Combined:	8
E
;;
-s|--change|-K|-C|-G|-A|-L) ;;
*) cat <<'E'
Settings for eth0:
	Supports Wake-on: pumbg
	Wake-on: d
	Speed: 10000Mb/s
E
;;
esac`

const hdparmAnswers = `case $1 in
-C) printf '\n%s:\n drive state is:  active/idle\n' "$2" ;;
-B) [ $# -gt 2 ] || printf '\n%s:\n APM_level\t= 254\n' "$2" ;;
esac`

// energyPolicy sets the register that the kernel shows as power/energy_perf_bias, with the real
// program's numbers for its words.
const energyPolicy = `bias=/sys/devices/system/cpu/cpu0/power/energy_perf_bias
if [ "$1" = -c ]; then bias=/sys/devices/system/cpu/cpu$2/power/energy_perf_bias; shift 2; fi
case $1 in
-r) printf 'cpu0: 0x%016x\n' "$(cat $bias)" ;;
performance) echo 0 >$bias ;;
balance-performance) echo 4 >$bias ;;
normal|default) echo 6 >$bias ;;
balance-power) echo 8 >$bias ;;
power) echo 15 >$bias ;;
'' | *[!0-9]*) echo "$1: not a number" >&2; exit 1 ;;
*) echo "$1" >$bias ;;
esac`
