// wire is the protocol between a test and its agent in the virtual machine: JSON, one value per
// line, over a virtio-serial port. The agent's first line after every start is a Reply with
// Boot set.

package vm

// Port is the name of the serial port, below /dev/virtio-ports.
const Port = "org.fettle.test"

// Request makes the agent run a program.
type Request struct {
	ID       int64    `json:"id"`
	Argv     []string `json:"argv"`
	Stdin    []byte   `json:"stdin,omitempty"`
	Env      []string `json:"env,omitempty"` // added to the agent's own
	TimeoutS float64  `json:"timeout_s"`     // then the program and its children are killed
}

// Reply is the outcome of a Request, or the greeting after a start.
type Reply struct {
	ID     int64  `json:"id,omitempty"`
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	Code   int    `json:"code"`            // exit code; 128+n for signal n; -1 when it did not start
	Error  string `json:"error,omitempty"` // the reason that it did not start or end
	Boot   string `json:"boot,omitempty"`  // boot id of the kernel
}
