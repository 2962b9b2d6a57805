package evidence

import (
	"encoding/json"
	"fmt"
)

// Cut says of a bench that it ended before its plan did. The body of a bench that was
// cut has it as "cut" at its top, and everything else in it is of what was finished.
type Cut struct {
	Done    int    `json:"finished"`
	Planned int    `json:"planned"`
	Of      string `json:"of"` // what is counted: measurements, rounds
}

func (c *Cut) String() string {
	return fmt.Sprintf("interrupted after %d of %d %s", c.Done, c.Planned, c.Of)
}

// Text puts it before what was found; c may be nil.
func (c *Cut) Text(found string) string {
	if c == nil {
		return found
	}
	return c.String() + ": " + found
}

// CutOf is that of a run; nil where it is whole.
func CutOf(r *Run) *Cut {
	var body struct {
		Cut *Cut `json:"cut"`
	}
	if json.Unmarshal(r.Body, &body) != nil {
		return nil // what is wrong with its body is said where it is shown
	}
	return body.Cut
}
