package evidence

import (
	"context"
	"encoding/json"
	"fmt"
)

// Interruption records that a benchmark was interrupted, or ended before its plan was complete. It
// is the body's top-level member "cut". The rest of the body covers only the finished part.
type Interruption struct {
	Done    int    `json:"finished"`
	Planned int    `json:"planned"`
	Of      string `json:"of"` // unit of the counts: measurements, rounds
	// Failed is why the benchmark ended. It is empty if a signal or the end of the process interrupted it.
	Failed string `json:"failed,omitempty"`
}

// EndedBy sets Failed to err, unless ctx, which a signal ends, has ended.
func (c *Interruption) EndedBy(ctx context.Context, err error) *Interruption {
	if ctx.Err() == nil && err != nil {
		c.Failed = err.Error()
	}
	return c
}

func (c *Interruption) String() string {
	word := "interrupted"
	if c.Failed != "" {
		word = "ended"
	}
	return fmt.Sprintf("%s after %d of %d %s", word, c.Done, c.Planned, c.Of)
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
