// Package irq reads which CPUs serve the interrupts and queues of devices, and compares them with
// the device's NUMA node and the CPUs that irqbalance does not use. The verb fettle irq uses it.
package irq

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Report is the JSON form of fettle irq show.
type Report struct {
	Schema   string      `json:"schema"` // fettle/irq/v1
	Headline ui.Headline `json:"headline"`
	Nodes    []Node      `json:"nodes"`
	Devices  []Device    `json:"devices"`
	Queues   []Queues    `json:"queues"`
	Balance  Balance     `json:"irqbalance"`
	// RFSEntries is net.core.rps_sock_flow_entries, or nil if unknown. 0 turns RFS off.
	RFSEntries *int64 `json:"rps_sock_flow_entries"`
	// Unknown lists why something could not be read.
	Unknown []string `json:"unknown"`

	online unit.CPUSet // CPUs that have a column in /proc/interrupts
	unread string      // why the interrupts are unknown, or ""
}

// Node is a NUMA node.
type Node struct {
	Node    int    `json:"node"`
	CPUList string `json:"cpu_list"`
	cpus    unit.CPUSet
}

// Verdict judges the CPUs that serve the interrupts of a device.
type Verdict string

// Verdicts, the worst first.
const (
	Isolated Verdict = "on isolated CPUs" // isolated or nohz_full
	OffNode  Verdict = "off node"         // at least one serving CPU is not on the device's node
	OneCPU   Verdict = "on one CPU"       // one CPU serves all of several interrupts
	OK       Verdict = "ok"
	Unknown  Verdict = "unknown" // its CPUs are unknown
)

var verdicts = []Verdict{Isolated, OffNode, OneCPU, Unknown, OK}

// Device is a device with interrupts.
type Device struct {
	Name string `json:"name"` // eth0, nvme0, or as the driver calls it
	// Node is the NUMA node of the device, or nil if it is unknown or has none.
	Node       *int   `json:"node"`
	Interrupts []int  `json:"interrupts"`
	CPUList    string `json:"cpu_list"` // CPUs that serve the interrupts now
	// OffNodeList and IsolatedList are the CPUs of CPUList that are not on Node, and those that are
	// isolated.
	OffNodeList  string `json:"off_node_cpu_list"`
	IsolatedList string `json:"isolated_cpu_list"`
	// Count is the number of interrupts since boot. LocalPercent is the share that CPUs of Node
	// served.
	Count        float64  `json:"count"`
	LocalPercent *float64 `json:"local_percent"`
	// HintsIgnored is the number of interrupts served by other CPUs than their driver's hint names.
	HintsIgnored int     `json:"hints_ignored"`
	Verdict      Verdict `json:"verdict"`

	lines  []interrupt
	cpus   unit.CPUSet
	local  float64
	blind  bool   // the CPUs of an interrupt are unknown
	busy   int    // number of interrupts with more than leastBusy
	driver string // of the PCI device, or ""
}

// interrupt is one interrupt of a device.
type interrupt struct {
	number int
	name   string // as the driver calls it
	cpus   unit.CPUSet
	count  float64 // since boot
	fixed  bool    // only the kernel moves it
}

func (i *interrupt) busy() bool { return i.count > leastBusy }

// Queues are the software queues of a network device: the CPUs that process received packets (RPS,
// RFS), and the CPUs that use each transmit queue (XPS).
type Queues struct {
	Device string `json:"device"`
	Node   *int   `json:"node"`
	// RxQueues and TxQueues are the numbers of queues. RPSQueues and XPSQueues are the numbers of
	// queues with CPUs set.
	RxQueues   int    `json:"rx_queues"`
	RPSQueues  int    `json:"rps_queues"`
	RPSList    string `json:"rps_cpu_list"`
	RFSEntries int64  `json:"rfs_entries"` // sum of rps_flow_cnt
	TxQueues   int    `json:"tx_queues"`
	XPSQueues  int    `json:"xps_queues"`
	XPSList    string `json:"xps_cpu_list"`
	// OffNodeList lists the CPUs of RPSList that are not on Node.
	OffNodeList string `json:"rps_off_node_cpu_list"`

	rps []queue  // receive queues with RPS
	tx  []string // transmit queues, by number
}

// queue is a queue with the CPUs that software sends its packets to.
type queue struct {
	name string // rx-0
	cpus unit.CPUSet
}

const interruptsFile = "/proc/interrupts"

// leastBusy is the count since boot above which an interrupt counts as in use, unlike those for
// configuration changes and of unused queues.
const leastBusy = 1000

// Read reads a machine.
func Read(h *host.Host) *Report {
	r := &Report{Schema: "fettle/irq/v1", Nodes: []Node{}, Devices: []Device{}, Queues: []Queues{}, Unknown: []string{}}
	r.readNodes(h)
	r.Balance = readBalance(h)
	r.readDevices(h)
	r.readQueues(h)
	r.Headline = r.headline()
	return r
}

// Err returns an error if the interrupts are unknown.
func (r *Report) Err() error {
	if r.unread == "" {
		return nil
	}
	return errors.New("the interrupts could not be determined: " + r.unread)
}

// Names returns the names of the devices.
func (r *Report) Names() (out []string) {
	for _, d := range r.Devices {
		out = append(out, d.Name)
	}
	return out
}

func (r *Report) readNodes(h *host.Host) {
	const dir = "/sys/devices/system/node"
	list, err := h.Files.ReadDir(dir)
	if why := host.Why(dir, err); why != "" {
		r.Unknown = append(r.Unknown, why)
	}
	for _, d := range list {
		digits, is := strings.CutPrefix(d.Name(), "node")
		n, err := strconv.Atoi(digits)
		cpus, err2 := unit.ParseCPUList(strings.TrimSpace(h.File(dir + "/" + d.Name() + "/cpulist").Text))
		if is && err == nil && err2 == nil {
			r.Nodes = append(r.Nodes, Node{n, cpus.String(), cpus})
		}
	}
	slices.SortFunc(r.Nodes, func(a, b Node) int { return a.Node - b.Node })
}

// cpusOf returns the CPUs of a node. ok is false if the node is nil or unknown.
func (r *Report) cpusOf(node *int) (cpus unit.CPUSet, ok bool) {
	for _, n := range r.Nodes {
		if node != nil && n.Node == *node {
			return n.cpus, true
		}
	}
	return cpus, false
}

func (r *Report) readDevices(h *host.Host) {
	f := h.File(interruptsFile)
	cpus, lines, err := activity.ParseInterrupts(f.Text)
	if err != nil {
		why := f.Unknown
		switch {
		case why == "" && f.Exists:
			why = interruptsFile + ": " + err.Error()
		case why == "":
			why = interruptsFile + " is missing"
		}
		r.unread = why
		r.Unknown = append(r.Unknown, why)
		return
	}
	r.online = unit.CPUs(cpus...)
	owners := readOwners(h)
	found := map[string]*Device{}
	var names []string
	for _, l := range lines {
		number, err := strconv.Atoi(l.Name)
		if err != nil {
			continue // of a CPU: LOC, RES
		}
		dir := "/proc/irq/" + l.Name + "/"
		at, owned := owners[number]
		if !owned {
			at = owner{name: driverName(l.Text)}
		}
		if node, err := strconv.Atoi(strings.TrimSpace(h.File(dir + "node").Text)); at.node == nil && err == nil && node >= 0 {
			at.node = &node
		}
		d := found[at.name]
		if d == nil {
			d = &Device{Name: at.name, Node: at.node, driver: at.driver}
			found[at.name] = d
			names = append(names, at.name)
		}
		line := interrupt{number: number, name: lastWord(l.Text)}
		local, _ := r.cpusOf(d.Node)
		for i, n := range l.Counts {
			line.count += n
			if local.Has(cpus[i]) {
				d.local += n
			}
		}
		d.add(h, dir, line)
	}
	for _, name := range names {
		d := found[name]
		r.judge(d)
		r.Devices = append(r.Devices, *d)
	}
	slices.SortStableFunc(r.Devices, func(a, b Device) int {
		return slices.Index(verdicts, a.Verdict) - slices.Index(verdicts, b.Verdict)
	})
}

// add adds an interrupt, whose files are in dir, to a device.
func (d *Device) add(h *host.Host, dir string, line interrupt) {
	d.Interrupts = append(d.Interrupts, line.number)
	d.Count += line.count
	if line.busy() {
		d.busy++
	}
	allowed, err := unit.ParseCPUList(strings.TrimSpace(h.File(dir + "smp_affinity_list").Text))
	now, err2 := unit.ParseCPUList(strings.TrimSpace(h.File(dir + "effective_affinity_list").Text))
	// Before Linux 4.15 there is only the first. An interrupt that was moved keeps its effective
	// CPU until it occurs again.
	if both := now.Intersect(allowed); err == nil && (err2 != nil || both.IsEmpty()) {
		now = allowed
	}
	if now.IsEmpty() {
		d.blind = true
		return
	}
	line.cpus, line.fixed = now, isFixed(h, dir, line.name)
	d.lines = append(d.lines, line)
	d.cpus = d.cpus.Union(now)
	hint, err := unit.ParseCPUMask(h.File(dir + "affinity_hint").Text)
	if err == nil && !hint.IsEmpty() && !now.Minus(hint).IsEmpty() {
		d.HintsIgnored++
	}
}

// isFixed reports whether the kernel manages an interrupt, so that no program can move it. Newer
// kernels make its file read-only (kernel/irq/proc.c). For older kernels, the queues of nvme,
// virtio_blk and virtio_scsi count as managed, because these drivers request that.
func isFixed(h *host.Host, dir, name string) bool {
	if st, err := h.Files.Stat(dir + "smp_affinity"); h.Live && err == nil && st.Mode().Perm()&0o222 == 0 {
		return true
	}
	return managedName().MatchString(name)
}

var managedName = text.LazyRegexp(`^(nvme\d+q[1-9]\d*|virtio\d+-req(\.\d+|uest))$`)

// judge sets the verdict on a device.
func (r *Report) judge(d *Device) {
	d.CPUList = d.cpus.String()
	isolated := d.cpus.Intersect(r.Balance.quiet)
	d.IsolatedList = isolated.String()
	local, _ := r.cpusOf(d.Node)
	var off unit.CPUSet
	if !local.IsEmpty() {
		off = d.cpus.Intersect(r.online).Minus(local) // a mask may have CPUs that are offline
		if d.Count > 0 {
			d.LocalPercent = new(100 * d.local / d.Count)
		}
	}
	d.OffNodeList = off.String()
	switch {
	case !isolated.IsEmpty():
		d.Verdict = Isolated
	case !off.IsEmpty():
		d.Verdict = OffNode
	case d.blind:
		d.Verdict = Unknown
	case d.busy > 1 && d.cpus.Len() == 1 && local.Len() != 1:
		d.Verdict = OneCPU
	default:
		d.Verdict = OK
	}
}

// owner is a device that has interrupts.
type owner struct {
	name, driver string
	node         *int
}

// readOwners returns the PCI devices by interrupt, named by their network or NVMe device
// (Documentation/ABI/testing/sysfs-bus-pci, msi_irqs).
func readOwners(h *host.Host) map[int]owner {
	const dir = "/sys/bus/pci/devices/"
	out := map[int]owner{}
	list, err := h.Files.ReadDir(path.Clean(dir))
	if err != nil {
		return out
	}
	for _, d := range list {
		driver, _ := h.Files.Readlink(dir + d.Name() + "/driver")
		own := owner{driver: path.Base(driver)}
		if node, err := strconv.Atoi(strings.TrimSpace(h.File(dir + d.Name() + "/numa_node").Text)); err == nil && node >= 0 {
			own.node = &node
		}
		own.name = childName(h, dir+d.Name(), 2, d.Name())
		irqs, err := h.Files.ReadDir(dir + d.Name() + "/msi_irqs")
		if err != nil {
			continue
		}
		for _, irq := range irqs {
			if n, err := strconv.Atoi(irq.Name()); err == nil {
				out[n] = own
			}
		}
	}
	return out
}

// childName returns the name of a PCI device's network, NVMe or block device, including one below a
// virtio device.
func childName(h *host.Host, dir string, depth int, other string) string {
	for _, class := range []string{"net", "nvme", "block"} {
		if list, err := h.Files.ReadDir(dir + "/" + class); err == nil && len(list) > 0 {
			return list[0].Name()
		}
	}
	list, err := h.Files.ReadDir(dir)
	if err != nil || depth == 0 {
		return other
	}
	for _, d := range list {
		if d.IsDir() && strings.HasPrefix(d.Name(), "virtio") {
			return childName(h, dir+"/"+d.Name(), depth-1, d.Name())
		}
	}
	return other
}

// driverName returns the device in the text of an interrupt: eth0 for "IR-PCI-MSI 524288-edge
// eth0-TxRx-0", nvme0 for "nvme0q3", virtio2 for "virtio2-input.0".
func driverName(line string) string {
	name := lastWord(line)
	if disk, queue, ok := strings.Cut(name, "q"); ok && strings.HasPrefix(disk, "nvme") && strings.Trim(queue, "0123456789") == "" {
		return disk
	}
	if _, address, ok := strings.Cut(name, "@pci:"); ok { // mlx5_comp0@pci:0000:3b:00.0
		return address
	}
	if m := queueName().FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

// lastWord returns the name that a driver gave to an interrupt, or "?".
func lastWord(line string) string {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "?"
	}
	return words[len(words)-1]
}

// queueName matches the name of a device with a queue: eth0-TxRx-0, i40e-eno1-TxRx-3,
// virtio2-input.0.
var queueName = text.LazyRegexp(`^(.*\d)-[A-Za-z_]+[-.]?\d*$`)
