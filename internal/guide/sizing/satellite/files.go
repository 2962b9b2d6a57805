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

// far are the machines that Satellite's network is looked at towards.
func (p *plan) far() (names []string) {
	for _, c := range p.Capsules {
		names = append(names, c.Name)
	}
	if len(names) == 0 {
		return []string{"HOST"} // one of those that it manages
	}
	return names
}

// artefacts writes the files and the steps in the guide's order (5.1).
func (p *plan) artefacts(sizing.Figures) error {
	health := "satellite-maintain health check"
	step := func(do, command, restarts, check string) {
		p.r.Steps = append(p.r.Steps, sizing.Step{Do: do, Command: command, Restarts: restarts, Check: check})
	}
	file := func(name, what, checked, content string) {
		p.r.Files = append(p.r.Files, sizing.Artefact{Name: name, What: what, Checked: checked, Content: content})
	}
	dropIn := func(name, service string, files int) {
		file(name, "the files that "+service+" may open", "systemd.exec(5)", fmt.Sprintf("# %s\n[Service]\nLimitNOFILE=%d\n", written, files))
	}
	step("Try all of it on a machine where nothing is lost; have a window, and monitoring from before, or nobody can say what it did", "", "", "")
	step("Have a backup", "satellite-maintain backup offline /var/backup", "all of Satellite, for as long as it takes", "the backup is there")
	step("Measure the disks before anything is installed on them, and again when Satellite runs", "fettle bench disk --role pulp /var/lib/pulp && fettle bench disk --role postgresql /var/lib/pgsql", "", "both read 80 MiB/s or more, an SSD 600 (S04, D04), which fettle check then reads in the record; later fettle bench disk --platform satellite measures all of them")
	if p.BareMetal {
		step("Set the firmware (BIOS or UEFI) to its performance mode, as the maker's manual names it (Dell: System Profile Performance, HPE: Static High Performance)", "", "the machine", "fettle check satellite: the CPUs are not held back (S03)")
	}
	for _, to := range p.far() {
		step("Look at the network to "+to+" with ping: a look at latency, jitter and loss, not a measurement of throughput", "ping -q -c 100 -i 0.2 "+to, "", "0% packet loss, and an mdev that is small next to avg; connections that are reset are in the logs (S60)")
	}
	tuned := p.r.Value("system", "tuned_profile").Value
	step("Apply the tuning profile, also at boot; where TuneD is to stay in charge, it takes the profile of the same name", fmt.Sprintf("fettle tune %v --persist --take-over", tuned), "", "fettle verify: each value is as it should be (S06)")
	step("Turn transparent huge pages off", "grubby --update-kernel=ALL --args=transparent_hugepage=never", "the machine", "cat /sys/kernel/mm/transparent_hugepage/enabled shows [never]")
	if len(p.sysctls) > 0 {
		file(SysctlFile, "what the kernel gives qpidd", "sysctl.d(5)", "# "+written+"\n"+strings.Join(p.sysctls, "\n")+"\n")
		step("Set the sysctls", "sysctl --load=/"+SysctlFile, "", "sysctl fs.aio-max-nr")
	}
	dropIn(HTTPDFile, "httpd", p.httpd)
	if p.mosquitto > 0 {
		dropIn(MosquittoFile, "mosquitto", p.mosquitto)
	}
	step("Put the drop-ins of the units in place", "systemctl daemon-reload && satellite-maintain service restart", "all of Satellite", health)
	if p.hiera != (hiera{}) {
		text, err := sizing.YAML(written+"\nOnly what the size "+p.size+" does not set: put it into the file that is there.", p.hiera)
		if err != nil {
			return err
		}
		file(HieraFile, "what differs from the size", "its keys are those of the installer's modules", text)
		step("Put the keys into /"+HieraFile, "", "", "nothing else in it is of the size: fettle check --explain S67")
	} else {
		p.r.Note("custom-hiera.yaml stays empty: all that this needs is in the size, and a key in it would lock out --tuning (S67)")
	}
	step("Tell the installer, which is what is in its answers from then on", p.command(), "all of Satellite", health)
	step("Look at the result", "fettle check satellite", "", "no finding is a failure or a warning")
	if len(p.sysctls) == 0 {
		p.r.Note("there is nothing to set in sysctl.d: what the guide sets is for qpidd, and its hosts stay below the kernel's default or the version has none")
	}
	return nil
}
