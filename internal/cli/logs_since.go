package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/ui"
)

// logPositions is the JSON form of the file of --since-last.
type logPositions struct {
	Schema    string            `json:"schema"` // fettle/logs-positions/v1
	Positions []source.Position `json:"positions"`
}

const positionsSchema = "fettle/logs-positions/v1"

// positionsMost is the maximum size of the file of --since-last, in bytes.
const positionsMost = 16 << 20

// sinceLast returns the parts of logs after the positions in a file.
func (a *app) sinceLast(file string, logs []source.Log) ([]source.Log, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return logs, nil // the first time
	}
	if err != nil {
		return nil, err
	}
	var p logPositions
	if err := json.Unmarshal(text, &p); err != nil || p.Schema != positionsSchema || len(text) > positionsMost {
		return nil, ui.Instead(ui.Refused, fmt.Errorf("--since-last %s: not a position file written by fettle", file), "starting a new position file; the logs are read from their beginning", "--since-last="+file+".positions")
	}
	next, lost, err := source.Continue(logs, p.Positions)
	for _, l := range lost {
		a.screen.Say("%s was rotated and its old file was not found; its last lines are missing", l)
	}
	return next, err
}

// keepPositions saves the positions up to which logs were read.
func keepPositions(file string, set *source.Set) error {
	positions, err := set.Positions()
	if err != nil {
		return err
	}
	text, err := json.Marshal(logPositions{positionsSchema, positions})
	if err != nil {
		return err
	}
	if err := cliutil.Replace(file, append(text, '\n'), []byte(`{"schema":"`+positionsSchema), "file of positions"); err != nil {
		return fmt.Errorf("--since-last: %w", err)
	}
	return nil
}
