package evidence

import (
	"encoding/json"
	"fmt"
)

// Interruption records that a benchmark was interrupted. It is the top-level member "cut" of
// the body; everything else in the body covers only the finished part.
type Interruption struct {
	Done    int    `json:"finished"`
	Planned int    `json:"planned"`
	Of      string `json:"of"` // the unit of the counts: measurements, rounds
}

func (c *Interruption) String() string {
	return fmt.Sprintf("interrupted after %d of %d %s", c.Done, c.Planned, c.Of)
}

// Text prefixes the result with the interruption. c may be nil.
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
		return nil // an invalid body is reported where it is shown
	}
	return body.Cut
}
