package memory

import (
	"os"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// InNewProcesses returns a Runner that measures in processes of this program.
func InNewProcesses(x host.Exec) (Runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return Fresh(x, self, "measure-memory"), nil
}

// TooLarge returns the error for taking more memory than a bench may.
func TooLarge(err error) error {
	return ui.Hinted(ui.Refused, err, "leave out --size to use what fits, or use --cells=4k, which needs least; free -h shows available memory")
}
