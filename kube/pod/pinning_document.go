package pod

// Schema is the name of the document.
const Schema = "fettle/pod-verify/v1"

// Document is what was found, as it is printed as JSON.
type Document struct {
	Schema    string `json:"schema"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	Node      string `json:"node"`
	Class     string `json:"qos_class"`
	// Result is fail if any check is, else unknown if any check is, else pass.
	Result  string `json:"result"`
	Version int    `json:"cgroup_version"`

	Checks     []Check        `json:"checks"`
	Containers []ContainerDoc `json:"containers"`
	Company    []CompanyDoc   `json:"company"`
	Left       LeftDoc        `json:"left"`
	// Weights are there where control groups are of version 2 and could be read.
	Weights *WeightsDoc `json:"cpu_weights,omitempty"`
}

// ContainerDoc is a container of the pod.
type ContainerDoc struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Running bool   `json:"running"`
	// Wanted is how many CPUs it asks for for itself, Exclusive whether it has some, and
	// CPUs those on which it is to run, as a list.
	Wanted    int    `json:"wanted_cpus_count"`
	Exclusive bool   `json:"exclusive"`
	CPUs      string `json:"cpus"`
	Group     string `json:"cgroup"`
	GroupCPUs string `json:"cgroup_cpus"`
	// Processes are those in it.
	Processes []ProcessDoc `json:"processes"`
}

// ProcessDoc is a process of a container.
type ProcessDoc struct {
	PID     int    `json:"pid"`
	Name    string `json:"name"`
	Threads int    `json:"threads_count"`
	CPUs    string `json:"allowed_cpus"`
}

// CompanyDoc are others who may run on the CPUs of a container.
type CompanyDoc struct {
	Container string `json:"container"`
	// Kind is container, sandbox, host or kernel.
	Kind      string `json:"kind"`
	Who       string `json:"who"`
	Processes int    `json:"processes_count"`
	CPUs      string `json:"cpus"`
}

// LeftDoc is what another pod can still get.
type LeftDoc struct {
	Shared    string        `json:"shared_cpus"`
	Reserved  string        `json:"reserved_cpus"`
	Free      string        `json:"free_cpus"`
	FreeCount int           `json:"free_cpus_count"`
	Resources []ResourceDoc `json:"resources"`
}

// ResourceDoc is the room of one resource, in Kubernetes' quantities.
type ResourceDoc struct {
	Name        string `json:"name"`
	Allocatable string `json:"allocatable"`
	Requested   string `json:"requested"`
	Left        string `json:"left"`
}

func newDocument(f *PinningFacts) *Document {
	return &Document{
		Schema: Schema, Namespace: f.Namespace, Pod: f.Name, UID: f.UID, Node: f.Node, Class: f.Class, Version: f.Version,
		Checks: []Check{}, Containers: []ContainerDoc{}, Company: []CompanyDoc{}, Left: LeftDoc{Resources: []ResourceDoc{}},
	}
}

// conclude makes the result of the checks. Unknown is never pass.
func (d *Document) conclude() {
	d.Result = Pass
	for _, c := range d.Checks {
		switch {
		case c.Result == Fail:
			d.Result = Fail
			return
		case c.Result == Unknown:
			d.Result = Unknown
		}
	}
}
