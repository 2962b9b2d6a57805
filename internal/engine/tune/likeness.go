package tune

import (
	"fmt"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
)

// likeness relates a wanted value to what its place reads. Where the texts alone do
// not tell, fettle's own newest write of that value does, which is returned then: the
// kernel accepted it, and the place reads as it did after it.
func (e *Engine) likeness(chain []*journal.Entry, s setting.Setting, want, read setting.Value) (setting.Comparison, *journal.Entry) {
	like := e.Kinds.Compare(s, want, read)
	if like != setting.Unclear || len(chain) == 0 {
		return like, nil
	}
	top := chain[len(chain)-1]
	if top.CoupledTo != 0 || top.After == nil || *top.After != read || top.Want != want {
		return like, nil
	}
	switch plugin.Verdict(top.Verdict) {
	case "", plugin.OK:
		return setting.Same, top
	case plugin.Unknown:
		return setting.Unclear, top // it had changed nothing that shows
	}
	return like, nil
}

// same reports whether a place that reads now has a value.
func (e *Engine) same(s setting.Setting, want, now setting.Value) bool {
	return e.Kinds.Equal(s, want, now)
}

// left reports whether a place reads as an entry has left it.
func (e *Engine) left(en *journal.Entry, now setting.Value) bool {
	return en.LeftBy(now, func(a, b setting.Value) bool { return e.same(en.Setting, b, a) })
}

// writtenAndRead names what was written to a place and what it reads.
func writtenAndRead(want, read setting.Value) string {
	return fmt.Sprintf("%s was written, %s is read", show(want), show(read))
}
