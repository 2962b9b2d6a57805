package fact

import (
	"time"

	"fettle.dev/fettle/internal/ui"
)

// Schema is the schema of Facts in JSON.
const Schema = "fettle/facts/v1"

// Facts holds everything read from a machine. JSON names include units. CPU lists have the
// kernel's format ("0-3,8").
type Facts struct {
	Schema string `json:"schema"`
	// Headline is set only by fettle facts.
	Headline *ui.Headline `json:"headline,omitempty"`
	// Time is the start of the collection by the machine's clock, or the recording time of an
	// archive.
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

	// Collectors records when each part was read and which collectors failed.
	Collectors []Run `json:"collectors"`

	// Unknown holds, by fact name, why a fact is unknown or a list may be incomplete. Source
	// holds the path of each value. null without a reason means absent. MarshalJSON sets both.
	Unknown map[string]string `json:"unknown"`
	Source  map[string]string `json:"source"`
}

// JSONPartial implements ui.PartialDocument, because a Selection omits parts.
func (Facts) JSONPartial() {}

// Run describes one run of a collector.
type Run struct {
	// Name is the name of the collector and of its part.
	Name      string    `json:"name"`
	Time      time.Time `json:"time"`
	DurationS float64   `json:"duration_s"`
	// Error is set if the collector itself failed. The facts that it did not collect are then
	// unknown.
	Error string `json:"error,omitempty"`
}
