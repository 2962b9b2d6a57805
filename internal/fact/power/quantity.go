package power

// quantity is a kind of value of a CPU, a package or the machine.
type quantity int

// The quantities, in the order of the table's columns.
const (
	busy quantity = iota
	steal
	busyFrequency
	frequency
	entered
	requested
	interrupts
	wakeups
	timers
	reschedules
	softirqs
	throttles
	throttlesSinceBoot
	temperature
	power
)

// source is how the value of a CPU follows from what its kernel file has.
type source int

const (
	computed  source = iota // not from a file of one CPU
	gauge                   // the number in the file
	growth                  // growth in the interval
	perSecond               // growth per second
	share                   // growth as a share of the CPU's time, in percent
)

// combination is the method by which the values of several CPUs are combined for a package or the
// machine.
type combination int

const (
	none combination = iota
	mean
	total
	highest
)

// visibility is when the table has a column for a quantity with values.
type visibility int

const (
	always   visibility = iota
	optional            // unless the terminal is narrow
	notable             // with --wide, or if a value is not 0
	wide                // with --wide
)

// quantities defines each quantity.
var quantities = [...]struct {
	name string // in Report.Missing; "" if the quantity is not a column
	source
	combination
	at     func(*Values) **float64
	states func(*Values) *map[string]float64 // instead of at: shares of idle states, in percent

	head   string  // of the column; a state's name for states
	scale  float64 // of the value, in the table
	places int     // decimals in the table
	show   visibility

	metric, help string  // metric fettle_power_...
	base         float64 // of the value, in the metric
}{
	busy: {"busy time", share, mean, func(v *Values) **float64 { return &v.BusyPercent }, nil,
		"busy %", 1, 1, always, "busy_ratio", "Time in which the CPU worked, without what the hypervisor took.", 0.01},
	steal: {"steal time", share, mean, func(v *Values) **float64 { return &v.StealPercent }, nil,
		"steal %", 1, 1, notable, "steal_ratio", "Time that the hypervisor took.", 0.01},
	busyFrequency: {"busy frequency", computed, mean, func(v *Values) **float64 { return &v.BusyFrequencyHz }, nil,
		"busy MHz", 1e-6, 0, always, "busy_frequency_hertz", "Mean CPU frequency while not idle.", 1},
	frequency: {"frequency", gauge, mean, func(v *Values) **float64 { return &v.FrequencyHz }, nil,
		"MHz", 1e-6, 0, always, "frequency_hertz", "CPU frequency at the end of the interval.", 1},
	entered: {"entered idle states", computed, mean, nil, func(v *Values) *map[string]float64 { return &v.EnteredPercent },
		"", 1, 1, always, "idle_entered_ratio", "Time in an idle state as the processor entered it.", 0.01},
	requested: {"requested idle states", computed, mean, nil, func(v *Values) *map[string]float64 { return &v.RequestedPercent },
		"", 1, 1, always, "idle_requested_ratio", "Time in an idle state as the kernel requested it.", 0.01},
	interrupts: {"interrupts", perSecond, total, func(v *Values) **float64 { return &v.InterruptsPerS }, nil,
		"irq/s", 1, 0, optional, "interrupts_per_second", "Interrupts.", 1},
	wakeups: {"wake-ups", perSecond, total, func(v *Values) **float64 { return &v.WakeupsPerS }, nil,
		"wake/s", 1, 0, optional, "wakeups_per_second", "Ends of idle states.", 1},
	timers: {"timer interrupts", perSecond, total, func(v *Values) **float64 { return &v.TimersPerS }, nil,
		"timer/s", 1, 0, wide, "timer_interrupts_per_second", "Interrupts of local timers.", 1},
	reschedules: {"reschedule interrupts", perSecond, total, func(v *Values) **float64 { return &v.ReschedulesPerS }, nil,
		"resched/s", 1, 0, wide, "reschedule_interrupts_per_second", "Wake-ups by other CPUs.", 1},
	softirqs: {"softirqs", perSecond, total, func(v *Values) **float64 { return &v.SoftIRQsPerS }, nil,
		"softirq/s", 1, 0, wide, "softirqs_per_second", "Software interrupts.", 1},
	throttles: {"throttling", growth, none, func(v *Values) **float64 { return &v.Throttled }, nil,
		"heat", 1, 0, notable, "throttled", "Times at which heat lowered the frequency, in the interval.", 1},
	throttlesSinceBoot: {"", gauge, none, func(v *Values) **float64 { return &v.ThrottledSinceBoot }, nil,
		"", 1, 0, wide, "", "", 1},
	temperature: {"temperature", gauge, highest, func(v *Values) **float64 { return &v.TemperatureC }, nil,
		"°C", 1, 0, always, "temperature_celsius", "Highest temperature.", 1},
	power: {"power", computed, none, func(v *Values) **float64 { return &v.PowerW }, nil,
		"W", 1, 1, always, "power_watts", "Power of packages and memory.", 1},
}

// known reports whether a value of a quantity is known.
func (q quantity) known(v *Values) bool {
	if def := &quantities[q]; def.states != nil {
		return len(*def.states(v)) > 0
	}
	return *quantities[q].at(v) != nil
}
