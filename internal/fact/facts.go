package fact

import (
	"time"
)

// Schema names the JSON form of Facts.
const Schema = "fettle/facts/v1"

// Facts is everything read from one machine. Units are in the JSON names; CPU
// lists are in the kernel's form ("0-3,8").
type Facts struct {
	Schema string `json:"schema"`
	// Time is when collecting began: the machine's clock, or for an archive
	// the time of its recording.
	Time time.Time `json:"time"`

	Machine        Machine        `json:"machine"`
	Virtualization Virtualization `json:"virtualization"`
	OS             OS             `json:"os"`
	Kernel         Kernel         `json:"kernel"`
	CPU            CPU            `json:"cpu"`
	NUMA           NUMA           `json:"numa"`
	Memory         Memory         `json:"memory"`
	Disk           Set[Disk]      `json:"disk"`
	Mount          Set[Mount]     `json:"mount"`
	Net            Set[Net]       `json:"net"`
	Cgroup         Cgroup         `json:"cgroup"`
	Services       Services       `json:"services"`

	// Collectors says when each part was read, and which failed.
	Collectors []Run `json:"collectors"`

	// What JSON has beside the tree of values, by the facts' names: why
	// something is unknown, or a list may lack some, and the path that each value was read from. A null
	// without a reason is what the machine does not have. MarshalJSON fills
	// them.
	Unknown map[string]string `json:"unknown"`
	Source  map[string]string `json:"source"`
}

// JSONPartial says that a document of facts may be a part of them (Selection).
func (Facts) JSONPartial() {}

// Run is one collector's work.
type Run struct {
	// Name is the collector, and the part of the tree that it filled.
	Name      string    `json:"name"`
	Time      time.Time `json:"time"`
	DurationS float64   `json:"duration_s"`
	// Error is set when the collector itself failed: what it did not get to
	// is unknown with this reason.
	Error string `json:"error,omitempty"`
}
