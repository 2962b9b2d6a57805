package evidence

import (
	"encoding/json"
	"fmt"
)

// Interruption says of a bench that it ended before its plan did. The body of a bench that was
// cut has it as "cut" at its top, and everything else in it is of what was finished.
type Interruption struct {
	Done    int    `json:"finished"`
	Planned int    `json:"planned"`
	Of      string `json:"of"` // what is counted: measurements, rounds
}

func (c *Interruption) String() string {
	return fmt.Sprintf("interrupted after %d of %d %s", c.Done, c.Planned, c.Of)
}

// Text puts it before what was found; c may be nil.
func (c *Interruption) Text(found string) string {
	if c == nil {
		return found
	}
	return c.String() + ": " + found
}

// InterruptionOf is that of a run; nil where it is whole.
func InterruptionOf(r *Run) *Interruption {
	var body struct {
		Cut *Interruption `json:"cut"`
	}
	if json.Unmarshal(r.Body, &body) != nil {
		return nil // what is wrong with its body is said where it is shown
	}
	return body.Cut
}
