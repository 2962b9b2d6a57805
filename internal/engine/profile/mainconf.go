package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
)

// MainConfigFile is TuneD's global configuration.
const MainConfigFile = "/etc/tuned/tuned-main.conf"

// MainConfig is the content of tuned-main.conf. MainKeys describes each key.
type MainConfig struct {
	Daemon                  bool
	DynamicTuning           bool
	SleepInterval           time.Duration
	UpdateInterval          time.Duration
	RecommendCommand        bool
	ReapplySysctl           bool
	ReapplySysctlExclude    []string
	DefaultInstancePriority int
	UdevBufferSize          int64 // bytes
	LogFileCount            int
	LogFileMaxSize          int64   // bytes
	UnameString             *string // nil: the machine's value
	CPUInfoString           *string // nil: the machine's value
	EnableDBus              bool
	EnableUnixSocket        bool
	UnixSocketPath          string
	UnixSocketSignalPaths   []string
	UnixSocketOwnership     string // "user group", names or ids; -1 means unchanged
	UnixSocketPermissions   fs.FileMode
	ConnectionsBacklog      int
	Rollback                Rollback
	ProfileDirs             []string
	StartupUdevSettleWait   time.Duration
	NumaBalance             NumaBalance // fettle's own: TuneD ignores its keys

	// Where maps each key that the file sets to its position.
	Where    map[string]Pos
	Warnings []Warning
}

// Rollback defines when TuneD undoes its changes.
type Rollback string

const (
	// RollbackAuto undoes a profile's changes at a switch of profiles and when the daemon ends.
	RollbackAuto Rollback = "auto"
	// RollbackNotOnExit undoes them only at a switch of profiles.
	RollbackNotOnExit Rollback = "not_on_exit"
)

// MainKey describes one key of tuned-main.conf for the manual.
type MainKey struct {
	Name    string
	Default string
	Unit    string // unit or form of the value
	Meaning string
	set     func(c *MainConfig, value string) error
}

// MainKeys lists the keys of tuned-main.conf (TuneD 2.28, tuned-main.conf and consts.py; those of
// numa_balance are fettle's), each with the default if the file does not set it.
var MainKeys = []MainKey{
	{"daemon", "1", "boolean", "keep running after the profile is applied; with 0 the daemon ends and undoes or watches nothing", setBool(func(c *MainConfig) *bool { return &c.Daemon })},
	{"dynamic_tuning", "0", "boolean", "let the daemon adapt values to the load (TuneD 2.20 ships the file with 1, 2.28 with 0)", setBool(func(c *MainConfig) *bool { return &c.DynamicTuning })},
	{"sleep_interval", "1", "seconds", "interval at which TuneD checks for events; fettle uses it only as the unit of update_interval", setSeconds(func(c *MainConfig) *time.Duration { return &c.SleepInterval })},
	{"update_interval", "10", "seconds", "interval at which dynamic tuning measures the load, in multiples of sleep_interval; 0 turns dynamic tuning off", setSeconds(func(c *MainConfig) *time.Duration { return &c.UpdateInterval })},
	{"recommend_command", "1", "boolean", "read the recommend files; with 0 the recommendation is always balanced", setBool(func(c *MainConfig) *bool { return &c.RecommendCommand })},
	{"reapply_sysctl", "1", "boolean", "the administrator's sysctl files take precedence over the profile", setBool(func(c *MainConfig) *bool { return &c.ReapplySysctl })},
	{"reapply_sysctl_exclude", "", "list of patterns", "sysctls that the administrator's files do not override", setList(func(c *MainConfig) *[]string { return &c.ReapplySysctlExclude })},
	{"default_instance_priority", "0", "whole number", "default priority of sections; lower ones are applied first", setInt(func(c *MainConfig) *int { return &c.DefaultInstancePriority })},
	{"udev_buffer_size", "1MB", "size", "receive buffer for device events", setSize(func(c *MainConfig) *int64 { return &c.UdevBufferSize })},
	{"log_file_count", "2", "files", "number of old log files that are kept", setInt(func(c *MainConfig) *int { return &c.LogFileCount })},
	{"log_file_max_size", "1MB", "size", "size at which the log file is rotated", setSize(func(c *MainConfig) *int64 { return &c.LogFileMaxSize })},
	{"uname_string", "", "text", "text that uname_regex matches instead of uname -a", func(c *MainConfig, v string) error { c.UnameString = &v; return nil }},
	{"cpuinfo_string", "", "text", "text that cpuinfo_regex matches instead of /proc/cpuinfo", func(c *MainConfig, v string) error { c.CPUInfoString = &v; return nil }},
	{"enable_dbus", "1", "boolean", "serve com.redhat.tuned on the system bus", setBool(func(c *MainConfig) *bool { return &c.EnableDBus })},
	{"enable_unix_socket", "0", "boolean", "serve JSON-RPC on a unix socket", setBool(func(c *MainConfig) *bool { return &c.EnableUnixSocket })},
	{"unix_socket_path", "/run/tuned/tuned.sock", "path", "path of the unix socket", func(c *MainConfig, v string) error { c.UnixSocketPath = v; return nil }},
	{"unix_socket_signal_paths", "", "list of paths", "sockets that signals are sent to", setList(func(c *MainConfig) *[]string { return &c.UnixSocketSignalPaths })},
	{"unix_socket_ownership", "-1 -1", "user and group", "owner of the unix socket; -1 keeps the default", func(c *MainConfig, v string) error { c.UnixSocketOwnership = v; return nil }},
	{"unix_socket_permissions", "0o600", "octal mode", "permission bits of the unix socket", setMode},
	{"connections_backlog", "1024", "connections", "number of clients that may wait for the unix socket", setInt(func(c *MainConfig) *int { return &c.ConnectionsBacklog })},
	{"rollback", "auto", "auto or not_on_exit", "whether TuneD undoes the tuning when the daemon ends; a switch of the profile always undoes it", setRollback},
	{"profile_dirs", "", "list of directories", "profile directories in addition to the default ones; later ones take precedence", setDirs},
	{"startup_udev_settle_wait", "0", "seconds", "time limit for pending device events at start", setSeconds(func(c *MainConfig) *time.Duration { return &c.StartupUdevSettleWait })},
	{"numa_balance", "", "all, or a list", "fettle only: processes that the daemon moves to the NUMA nodes where they fit (names, units, containers, guests, pods); empty or 0 is off", setNumaBalance},
	{"numa_balance_exclude", "", "list", "fettle only: processes that numa_balance leaves alone", setNumaExclude},
	{"numa_balance_interval", "5:15", "seconds, [MIN:]MAX", "fettle only: time between two passes of numa_balance: MIN after a move, up to MAX while there is nothing to do", setNumaInterval},
}

// DefaultMain returns the configuration used without a tuned-main.conf.
func DefaultMain() *MainConfig {
	c := &MainConfig{Where: map[string]Pos{}}
	for _, k := range MainKeys {
		if k.Default == "" {
			continue
		}
		if err := k.set(c, k.Default); err != nil {
			panic("tuned-main.conf table: " + k.Name + ": " + err.Error())
		}
	}
	return c
}

// ReadMain reads the machine's tuned-main.conf. It returns the defaults if the file does not
// exist.
func ReadMain(h *host.Host) (*MainConfig, error) {
	data, err := h.Files.ReadFile(MainConfigFile)
	switch {
	case host.NotFound(err):
		return DefaultMain(), nil
	case err != nil:
		return nil, err
	}
	return ParseMain(MainConfigFile, data)
}

// ParseMain parses tuned-main.conf.
func ParseMain(file string, data []byte) (*MainConfig, error) {
	conf, err := parseConfig(file, data, parseSyntax{headerless: true})
	if err != nil {
		return nil, err
	}
	c := DefaultMain()
	var errs Errors
	for _, e := range conf.options(conf.section(headerlessSection)) {
		key := mainKey(e.key)
		if key == nil {
			c.Warnings = append(c.Warnings, Warning{e.pos, fmt.Sprintf("unknown key %q%s", e.key, text.Suggest(e.key, mainKeyNames()))})
			continue
		}
		if err := key.set(c, e.value); err != nil {
			errs = append(errs, errAt(e.pos, "%s=%s: %w", e.key, e.value, err))
			continue
		}
		c.Where[e.key] = e.pos
	}
	if err := errs.orNil(); err != nil {
		return nil, err
	}
	return c, nil
}

// DynamicInterval returns the time between two load samples, or 0 if dynamic tuning is off. As in
// TuneD it is a whole number of sleep intervals, at least one.
func (c *MainConfig) DynamicInterval() time.Duration {
	switch {
	case !c.DynamicTuning || c.UpdateInterval <= 0:
		return 0
	case c.SleepInterval <= 0:
		return c.UpdateInterval
	}
	return max(c.UpdateInterval/c.SleepInterval, 1) * c.SleepInterval
}

func mainKeyNames() []string {
	names := make([]string, len(MainKeys))
	for i, k := range MainKeys {
		names[i] = k.Name
	}
	return names
}

func mainKey(name string) *MainKey {
	for i := range MainKeys {
		if MainKeys[i].Name == name {
			return &MainKeys[i]
		}
	}
	return nil
}

func setBool(field func(*MainConfig) *bool) func(*MainConfig, string) error {
	return func(c *MainConfig, v string) error {
		switch strings.ToLower(v) { // ConfigParser.BOOLEAN_STATES
		case "1", "yes", "true", "on":
			*field(c) = true
		case "0", "no", "false", "off":
			*field(c) = false
		default:
			return errors.New("expected 1 or 0 (or yes, no, true, false, on, off)")
		}
		return nil
	}
}

func smallInt(v string) (int, error) {
	n, ok := parseInt(v)
	if !ok || !n.IsInt64() || n.Int64() > 1<<31-1 || n.Int64() < -1<<31 {
		return 0, errors.New("expected a whole number from -2147483648 to 2147483647")
	}
	return int(n.Int64()), nil
}

func setInt(field func(*MainConfig) *int) func(*MainConfig, string) error {
	return func(c *MainConfig, v string) (err error) {
		*field(c), err = smallInt(v)
		return err
	}
}

func setSeconds(field func(*MainConfig) *time.Duration) func(*MainConfig, string) error {
	return func(c *MainConfig, v string) error {
		n, err := smallInt(v)
		if err != nil || n < 0 {
			return errors.New("expected a whole number of seconds")
		}
		*field(c) = time.Duration(n) * time.Second
		return nil
	}
}

func setSize(field func(*MainConfig) *int64) func(*MainConfig, string) error {
	return func(c *MainConfig, v string) error {
		s := strings.ToUpper(strip(v))
		shift := 0
		for i, suffix := range []string{"KB", "MB", "GB"} {
			if number, ok := strings.CutSuffix(s, suffix); ok {
				s, shift = number, 10*(i+1)
			}
		}
		n, err := smallInt(s)
		if err != nil || n < 0 {
			return errors.New("expected a size such as 512KB, 1MB or 1048576")
		}
		*field(c) = int64(n) << shift
		return nil
	}
}

func listOf(v string) []string {
	var out []string
	for _, item := range splitList(v, false) {
		if item = strip(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

func setList(field func(*MainConfig) *[]string) func(*MainConfig, string) error {
	return func(c *MainConfig, v string) error {
		*field(c) = listOf(v)
		return nil
	}
}

func setDirs(c *MainConfig, v string) error {
	dirs := listOf(v)
	for _, d := range dirs {
		if !strings.HasPrefix(d, "/") {
			return fmt.Errorf("%q is not an absolute path", d)
		}
	}
	c.ProfileDirs = dirs
	return nil
}

func setMode(c *MainConfig, v string) error {
	n, err := strconv.ParseUint(v, 0, 32)
	if err != nil || n > 0o777 {
		return errors.New("expected a mode such as 0o600")
	}
	c.UnixSocketPermissions = fs.FileMode(n)
	return nil
}

func setRollback(c *MainConfig, v string) error {
	switch Rollback(v) {
	case RollbackAuto, RollbackNotOnExit:
		c.Rollback = Rollback(v)
		return nil
	}
	return errors.New("expected auto or not_on_exit")
}
