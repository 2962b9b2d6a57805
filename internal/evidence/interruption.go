package evidence

import (
	"encoding/json"
	"fmt"
)

// Interruption records that a benchmark was interrupted. It is the body's top-level member "cut".
// The rest of the body covers only the finished part.
type Interruption struct {
	Done    int    `json:"finished"`
	Planned int    `json:"planned"`
	Of      string `json:"of"` // unit of the counts: measurements, rounds
}

func (c *Interruption) String() string {
	return fmt.Sprintf("interrupted after %d of %d %s", c.Done, c.Planned, c.Of)
}

// Text returns the result, prefixed with the interruption. c may be nil.
func (c *Interruption) Text(found string) string {
	if c == nil {
		return found
	}
	return c.String() + ": " + found
}

// InterruptionOf returns the interruption of a run, or nil if it is complete.
func InterruptionOf(r *Run) *Interruption {
	var body struct {
		Cut *Interruption `json:"cut"`
	}
	if json.Unmarshal(r.Body, &body) != nil {
		return nil // whoever shows the body reports that it is invalid
	}
	return body.Cut
}
