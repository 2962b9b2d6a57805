package experiment

import (
	"os"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/ui"
)

// An undo by another shell does not make the measurement fail whose change it undid. A damaged
// journal does.
func TestHeldEnd(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		q, _ := quietOn(t)
		told := ""
		r := &Reserved{q.held}
		r.tell = func(text string) { told += text }
		var err error
		if damaged {
			err = os.WriteFile(q.Engine.StateDir+"/journal", []byte("damaged\n"), 0o600)
		} else {
			_, err = q.Engine.Undo(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		err = r.Release(t.Context())
		switch {
		case damaged && (ui.Code(err) != ui.Incomplete || told != ""):
			t.Errorf("a damaged journal: %v, %q", err, told)
		case !damaged && (err != nil || !strings.Contains(told, "another program reverted the change (transaction 1)")):
			t.Errorf("undone by another: %v, %q", err, told)
		}
	}
}
