package satellite

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/guide/sizing"
)

// Names of the files, on the machine.
const (
	HieraFile     = "etc/foreman-installer/custom-hiera.yaml"
	SysctlFile    = "etc/sysctl.d/60-satellite.conf"
	HTTPDFile     = "etc/systemd/system/httpd.service.d/limits.conf"
	MosquittoFile = "etc/systemd/system/mosquitto.service.d/limits.conf"
)

const written = "Written by fettle size satellite."

// far returns the machines to which the network is checked.
func (p *plan) far() (names []string) {
	for _, c := range p.Capsules {
		names = append(names, c.Name)
	}
	if len(names) == 0 {
		return []string{"HOST"} // one of the managed hosts
	}
	return names
}

// artefacts adds the files and the steps, in the order of the Tuning Guide (5.1).
func (p *plan) artefacts() error {
	health := "satellite-maintain health check"
	step := func(do, command, restarts, check string) {
		p.r.Steps = append(p.r.Steps, sizing.Step{Do: do, Command: command, Restarts: restarts, Check: check})
	}
	file := func(name, what, checked, content string) {
		p.r.Files = append(p.r.Files, sizing.Artefact{Name: name, What: what, Checked: checked, Content: content})
	}
	dropIn := func(name, service string, files int) {
		file(name, "the open files of "+service, "systemd.exec(5)", fmt.Sprintf("# %s\n[Service]\nLimitNOFILE=%d\n", written, files))
	}
	step("Try it on a test machine first, with monitoring, to see the effect", "", "", "")
	step("Make a backup", "satellite-maintain backup offline /var/backup", "all of Satellite, for as long as it takes", "the backup is there")
	step("Measure the disks before the installation, and again when Satellite runs", "fettle bench disk --role pulp /var/lib/pulp && fettle bench disk --role postgresql /var/lib/pgsql", "", "both read 80 MiB/s or more, an SSD 600 (S04, D04; fettle check uses the record); later fettle bench disk --platform satellite measures all of them")
	if p.BareMetal {
		step("Set the firmware (BIOS or UEFI) to its performance mode, as the vendor's manual names it (Dell: System Profile Performance, HPE: Static High Performance)", "", "the machine", "fettle check satellite: the CPUs are not held back (S03)")
	}
	names, ping, to := p.far(), "ping -q -c 100 -i 0.2 ", "the Capsules"
	switch {
	case len(p.Capsules) == 0:
		ping, to = ping+names[0], "a managed host, "+names[0]
	case len(names) == 1:
		ping, to = ping+names[0], names[0]
	default:
		ping = "for c in " + strings.Join(names, " ") + "; do " + ping + "$c; done"
	}
	step("Check the network to "+to+": latency, jitter and loss", ping, "", "0% packet loss, and an mdev that is small compared with avg; the logs show connection resets (S60)")
	tuned := p.r.Value("system", "tuned_profile").Value
	step("Apply the tuning profile for "+map[bool]string{true: "bare metal, also at boot", false: "a guest, also at boot (or use --bare-metal)"}[p.BareMetal], fmt.Sprintf("fettle tune %v --persist --take-over", tuned), "", "fettle verify: each value is as it should be (S06); if TuneD is to stay in charge, use its profile of the same name instead")
	step("Turn transparent huge pages off", "grubby --update-kernel=ALL --args=transparent_hugepage=never", "the machine", "cat /sys/kernel/mm/transparent_hugepage/enabled shows [never]")
	if len(p.sysctls) > 0 {
		file(SysctlFile, "kernel settings for qpidd", "sysctl.d(5)", "# "+written+"\n"+strings.Join(p.sysctls, "\n")+"\n")
		step("Set the sysctls", "sysctl --load=/"+SysctlFile, "", "sysctl fs.aio-max-nr")
	}
	dropIn(HTTPDFile, "httpd", p.httpd)
	if p.mosquitto > 0 {
		dropIn(MosquittoFile, "mosquitto", p.mosquitto)
	}
	step("Put the drop-ins of the units in place (files: --write DIR)", "systemctl daemon-reload && satellite-maintain service restart", "all of Satellite", health)
	if p.hiera != (hiera{}) {
		text, err := sizing.YAML(written+"\nOnly what the size "+p.size+" does not set: add it to the existing file.", p.hiera)
		if err != nil {
			return err
		}
		file(HieraFile, "what differs from the size", "the keys of the installer's modules", text)
		step("Add the keys to /"+HieraFile, "", "", "the size sets no other key of this file: fettle check --explain S67")
	} else {
		p.r.Note("custom-hiera.yaml stays empty: the size sets all required values, and a key in this file would override --tuning (S67)")
	}
	step("Run the installer; it keeps the options", p.command(), "all of Satellite", health)
	step("Check the result", "fettle check satellite", "", "no finding is a failure or a warning")
	if len(p.sysctls) == 0 {
		p.r.Note("no sysctls are needed: the Tuning Guide sets one for qpidd, and its hosts stay below the kernel's default or the version has no qpidd")
	}
	return nil
}
