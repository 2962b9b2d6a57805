package host

import "testing"

func TestLogIsOneLine(t *testing.T) {
	if got := oneLine("transaction 1: by joe\n<29>sshd: x\x1b[0m\u0085\u2028y\ttä"); got != "transaction 1: by joe <29>sshd: x [0m  y tä" {
		t.Errorf("%q", got)
	}
}
