package daemon

import (
	"bytes"
	"encoding/json"
)

// The structures that methods answer. On the bus a structure's fields are its
// members in order; in JSON it is an array, as Python writes a tuple.

// Reply is (bs): whether it was done, and "OK" or why not.
type Reply struct {
	OK      bool
	Message string
}

// Mode is (ss): auto or manual, and an error text.
type Mode struct{ Mode, Failure string }

// MethodInfo is (bsss): whether there is such a profile, and what it says of itself.
type MethodInfo struct {
	OK                         bool
	Name, Summary, Description string
}

// Pair is (ss): a profile with its summary, an instance with its plug-in.
type Pair struct{ Name, Value string }

// Instances is (bsa(ss)).
type Instances struct {
	OK        bool
	Message   string
	Instances []Pair
}

// Devices is (bsas).
type Devices struct {
	OK      bool
	Message string
	Devices []string
}

func (r Reply) MarshalJSON() ([]byte, error) { return tuple(r.OK, r.Message) }
func (m Mode) MarshalJSON() ([]byte, error)  { return tuple(m.Mode, m.Failure) }
func (i MethodInfo) MarshalJSON() ([]byte, error) {
	return tuple(i.OK, i.Name, i.Summary, i.Description)
}
func (p Pair) MarshalJSON() ([]byte, error) { return tuple(p.Name, p.Value) }
func (i Instances) MarshalJSON() ([]byte, error) {
	return tuple(i.OK, i.Message, i.Instances)
}
func (d Devices) MarshalJSON() ([]byte, error) { return tuple(d.OK, d.Message, d.Devices) }

// tuple is json.Marshal without escapes for HTML, which Python does not write.
func tuple(members ...any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(members)
	return bytes.TrimSpace(b.Bytes()), err
}
