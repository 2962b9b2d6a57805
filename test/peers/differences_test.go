package peers

import "regexp"

// difference is one thing that fettle leaves otherwise than TuneD, on purpose.
// All but id and why are patterns for the whole text.
type difference struct {
	id      string
	profile string // "TuneD:NAME" for an installed one, "fettle:NAME" for one of ours
	path    string // a key of effect
	tuned   string // what TuneD leaves
	fettle  string // what fettle leaves
	why     string
}

var differences = []difference{
	{
		"energy-perf-bias-attribute", ".*", `run x86_energy_perf_policy -c \d+ \S+`, ran, unchanged,
		"fettle writes the kernel's attribute energy_perf_bias itself; the values are compared",
	},
	{
		"dirty-bytes-of-2.28", "fettle:.*", "/proc/sys/vm/dirty_(background_)?(ratio|bytes)", unchanged, `\d+`,
		"[vm] knows dirty_bytes and its relatives since TuneD 2.28; our profiles use them",
	},
	{
		"acpi-of-2.28", "fettle:.*", "/sys/firmware/acpi/platform_profile", unchanged, "[a-z-]+",
		"TuneD 2.20 has no plug-in acpi",
	},
	{
		"rival-limits", "TuneD:postgresql", "/proc/sys/vm/dirty_(background_)?ratio", "0", unchanged,
		"the profile sets dirty_bytes and dirty_ratio=0; the kernel itself makes the ratio 0 when the bytes are written (mm/page-writeback.c), so fettle writes only the limit that holds",
	},
	{
		"module-loaded-already", "TuneD:(balanced|desktop)", `run modprobe (-r )?cpufreq_conservative`, ran, unchanged,
		"the module is loaded and the profile gives it no options: taking it out and in again changes nothing and can fail",
	},
	{
		"hdparm-for-ata-only", "TuneD:spindown-disk", `run hdparm -[BS] \d+ /dev/nvme0n1`, ran, unchanged,
		"APM and the standby timer are ATA commands: an NVMe disk refuses them",
	},
	{
		"no-turbo-number", "TuneD:cpu-partitioning-powersave", "/sys/devices/system/cpu/intel_pstate/no_turbo", "true", "1",
		"the kernel reads a number there (drivers/cpufreq/intel_pstate.c, store_no_turbo) and refuses the word",
	},
	{
		"generator-called", ".*", "run grub-mkconfig( -o /boot/grub2/grub.cfg)?", unchanged, ran,
		"TuneD patches /etc/grub2.cfg, which Debian does not have, and leaves the arguments where nothing reads them; fettle has the configuration generated",
	},
	{
		"net-by-netlink", "(TuneD|fettle):realtime.*", `run ethtool -L eth[01] combined 2`, ran, unchanged,
		"fettle asks the kernel over netlink, and the invented devices are files only: what it does to devices is read back by ethtool in package net",
	},
	{
		"manager-drop-in", "(TuneD|fettle):cpu-partitioning(-powersave)?", "/etc/systemd/system.conf", "(?s).*CPUAffinity=0 4", unchanged,
		"fettle leaves the packaged file alone",
	},
	{
		"manager-drop-in", "(TuneD|fettle):cpu-partitioning(-powersave)?", "/etc/systemd/system.conf.d/90-fettle.conf", unchanged, "(?s).*CPUAffinity=0 4",
		"and writes a file of its own beside it, as newer TuneD does",
	},
	{
		"manager-drop-in", "TuneD:cpu-partitioning(-powersave)?", "/boot/tuned-initrd.img: etc/systemd/system.conf", ".*CPUAffinity=0 4\n", unchanged + "|.*CPUAffinity=\n.*",
		"so a script that copies the packaged file into the image copies it as it was packaged",
	},
	{
		"image-marked", "TuneD:cpu-partitioning(-powersave)?", `/boot/tuned-initrd.img: \.fettle-overlay`, unchanged, ".*",
		"by this member undo knows that the image is fettle's",
	},
	{
		"isolated-cores-packed", "(TuneD|fettle):(realtime|cpu-partitioning).*", bootArguments, ".*=(managed_irq,domain,)?1,2,3,5,6,7.*", ".*=(managed_irq,domain,)?1-3,5-7.*",
		"calc_isolated_cores gives ranges, as in TuneD 2.28 (profile.Differences)",
	},
	{
		"banned-cpu-list", "(TuneD|fettle):(realtime|cpu-partitioning).*", "/etc/default/irqbalance", ".*\nIRQBALANCE_BANNED_CPUS=000000ee", ".*\nIRQBALANCE_BANNED_CPULIST=1-3,5-7",
		"the list has replaced the mask in irqbalance, and in newer TuneD",
	},
}

// pending are options that are being written, and what only they change. An
// entry has no effect once the option is in table.All.
var pending = []struct{ plugin, option, path string }{}

func (d difference) matches(profile, path, tuned, fettle string) bool {
	whole := func(pattern, text string) bool {
		return regexp.MustCompile(`(?s)^(?:` + pattern + `)$`).MatchString(text)
	}
	return whole(d.profile, profile) && whole(d.path, path) && whole(d.tuned, tuned) && whole(d.fettle, fettle)
}
