package kuberelease

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// valueCheck is a check that kubelets of the releases from first to last make when they start; 0
// means unlimited. check returns the reason that the kubelet does not start, or "".
type valueCheck struct {
	field       string
	first, last Release
	check       func(j *checker, path []string) string
}

// valueChecks are the checks that depend on the release or a feature gate, and related ones.
// Source: k8s.io/kubernetes v1.29.14 to v1.37.2, pkg/kubelet/apis/config/validation,
// ValidateKubeletConfiguration. TestConfigValidation of test/admission compares the table with it.
var valueChecks = []valueCheck{
	{"containerLogMaxFiles", 33, 0, atLeast(2)},
	{"containerLogMaxWorkers", 30, 0, atLeast(1)},
	{"containerLogMonitorInterval", 30, 0, func(j *checker, path []string) string {
		if d := j.span(path...); d != 0 && d < 3*time.Second {
			return fmt.Sprintf("%s is less than 3s", d)
		}
		return ""
	}},
	{"cpuCFSQuotaPeriod", 0, 0, quotaPeriod},
	{"crashLoopBackOff.maxContainerRestartPeriod", 32, 0, restartPeriod},
	{"defaultPodSysctls", 37, 0, podSysctls},
	{"enableSystemLogQuery", 0, 0, func(j *checker, path []string) string {
		switch {
		case !j.isTrue(false, path...):
			return ""
		case !j.isTrue(true, "enableSystemLogHandler"):
			return "needs enableSystemLogHandler: true"
		}
		return j.needs("NodeLogQuery")
	}},
	{"enforceNodeAllocatable", 0, 0, enforced},
	{"failCgroupV1", 31, 0, func(j *checker, path []string) string {
		standard, _ := j.table.Default("failCgroupV1", j.kubelet.Release)
		if j.kubelet.Cgroup != 1 || !j.isTrue(standard == "true", path...) {
			return ""
		}
		return "true (the default from Kubernetes 1.35 on) is not possible on a machine with control groups of version 1; boot the machine with version 2, or set failCgroupV1 to false"
	}},
	{"imageMaximumGCAge", 0, 0, maximumAge},
	{"imageMinimumGCAge", 36, 0, func(j *checker, path []string) string {
		if j.span(path...) < 0 {
			return "must not be negative"
		}
		return ""
	}},
	{"imagePullCredentialsVerificationPolicy", 33, 0, func(j *checker, path []string) string {
		policies := []string{"NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"}
		return j.gated("KubeletEnsureSecretPulledImages", policies, path)
	}},
	{"maxParallelImagePulls", 0, 0, func(j *checker, path []string) string {
		n, ok := j.number(path...)
		switch {
		case ok && n < 1:
			return fmt.Sprintf("%v is less than 1", n)
		case n > 1 && j.isTrue(false, "serializeImagePulls"):
			return "more than 1 needs serializeImagePulls: false"
		}
		return ""
	}},
	{"memoryReservationPolicy", 36, 0, func(j *checker, path []string) string {
		switch text := j.text(path...); text {
		case "", "None":
			return ""
		case "TieredReservation":
			return j.needs("MemoryQoS")
		default:
			return oneOf(text, []string{"None", "TieredReservation"})
		}
	}},
	{"memorySwap.swapBehavior", 0, 29, func(j *checker, path []string) string {
		return j.gated("NodeSwap", []string{"LimitedSwap", "UnlimitedSwap"}, path)
	}},
	{"memorySwap.swapBehavior", 30, 0, func(j *checker, path []string) string {
		return j.gated("NodeSwap", []string{"NoSwap", "LimitedSwap"}, path)
	}},
	{"memoryThrottlingFactor", 0, 0, throttling},
	{"preloadedImagesVerificationAllowlist", 33, 0, func(j *checker, path []string) string {
		switch {
		case j.text(path...) == "":
			return ""
		case j.on("KubeletEnsureSecretPulledImages") && j.text("imagePullCredentialsVerificationPolicy") != "NeverVerifyAllowlistedImages":
			return "needs imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages"
		}
		return j.needs("KubeletEnsureSecretPulledImages")
	}},
	{"runOnce", 32, 0, func(j *checker, path []string) string {
		if j.isTrue(false, path...) {
			return "Kubernetes 1.32 removed this mode; remove it"
		}
		return ""
	}},
	{"serverTLSBootstrap", 0, 0, func(j *checker, path []string) string {
		if !j.isTrue(false, path...) {
			return ""
		}
		return j.needs("RotateKubeletServerCertificate")
	}},
	{"shutdownGracePeriod", 0, 0, gracePeriod},
	{"shutdownGracePeriodCriticalPods", 0, 0, func(j *checker, path []string) string {
		if why := gracePeriod(j, path); why != "" || j.span(path...) <= j.span("shutdownGracePeriod") {
			return why
		}
		return "must not exceed shutdownGracePeriod, of which this time is a part"
	}},
	{"shutdownGracePeriodByPodPriority", 0, 0, func(j *checker, path []string) string {
		list, isList := j.at(path...).([]any)
		switch {
		case !j.set(path...) || isList && len(list) == 0:
			return ""
		case j.on("GracefulNodeShutdownBasedOnPodPriority") && (j.span("shutdownGracePeriod") > 0 || j.span("shutdownGracePeriodCriticalPods") > 0):
			return "cannot be combined with shutdownGracePeriod"
		}
		return j.needs("GracefulNodeShutdownBasedOnPodPriority")
	}},
	{"singleProcessOOMKill", 32, 0, func(j *checker, path []string) string {
		if j.kubelet.Cgroup == 1 && !j.isTrue(true, path...) {
			return "false needs control groups of version 2, and the machine has version 1"
		}
		return ""
	}},
	{"tracing", 0, 33, func(j *checker, path []string) string {
		if !j.set(path...) {
			return ""
		}
		return j.needs("KubeletTracing")
	}},
	{"userNamespaces.idsPerPod", 33, 0, func(j *checker, path []string) string {
		const unit = 65536
		if n, ok := j.number(path...); ok && (n < unit || int64(n)%unit != 0 || n > 1<<32-1) {
			return fmt.Sprintf("want a multiple of %d below 2^32, found %s", unit, j.text(path...))
		}
		return ""
	}},
}

// atLeast returns a check that a number, if set, is not less than a minimum.
func atLeast(least float64) func(*checker, []string) string {
	return func(j *checker, path []string) string {
		if n, ok := j.number(path...); ok && n < least {
			return fmt.Sprintf("%v is less than %v", n, least)
		}
		return ""
	}
}

// gated checks that an option has one of the choices, and is set only if the feature gate is on.
func (j *checker) gated(gate string, choices []string, path []string) string {
	text := j.text(path...)
	switch {
	case text == "":
		return ""
	case !j.on(gate):
		return j.needs(gate)
	}
	return oneOf(text, choices)
}

func oneOf(text string, choices []string) string {
	if slices.Contains(choices, text) {
		return ""
	}
	return fmt.Sprintf("want %s, found %q", strings.Join(choices, " or "), text)
}

func quotaPeriod(j *checker, path []string) string {
	const standard = 100 * time.Millisecond
	d := j.span(path...)
	switch {
	case d == 0 || d == standard:
		return ""
	case !j.on("CustomCPUCFSQuotaPeriod"):
		return j.needs("CustomCPUCFSQuotaPeriod")
	case d < time.Millisecond || d > time.Second:
		return fmt.Sprintf("%s is not from 1ms to 1s", d)
	}
	return ""
}

func restartPeriod(j *checker, path []string) string {
	if !j.set(path...) {
		return ""
	}
	if why := j.needs("KubeletCrashLoopBackOffMax"); why != "" {
		return why
	}
	if d := j.span(path...); d < time.Second || d.Milliseconds() > 300_000 {
		return fmt.Sprintf("%s is not from 1s to 300s", d)
	}
	return ""
}

func maximumAge(j *checker, path []string) string {
	const defaultMinimum = 2 * time.Minute
	age, least := j.span(path...), j.span("imageMinimumGCAge")
	if least == 0 {
		least = defaultMinimum
	}
	switch {
	case age == 0:
		return ""
	case !j.on("ImageMaximumGCAge"):
		return j.needs("ImageMaximumGCAge")
	case age < 0:
		return "must not be negative"
	case age <= least:
		return fmt.Sprintf("%s is not more than imageMinimumGCAge, %s", age, least)
	}
	return ""
}

// gracePeriod checks a shutdown grace period: at least 1 s, and only with GracefulNodeShutdown; 0
// is allowed.
func gracePeriod(j *checker, path []string) string {
	d := j.span(path...)
	switch {
	case d == 0, d < 0 && !j.on("GracefulNodeShutdown"):
		return ""
	case d > 0 && !j.on("GracefulNodeShutdown"):
		return j.needs("GracefulNodeShutdown")
	case d < time.Second:
		return fmt.Sprintf("%s is less than 1s; want 0, or 1s or more", d)
	}
	return ""
}

func throttling(j *checker, path []string) string {
	const formerDefault = 0.9
	factor, ok := j.number(path...)
	switch {
	case !ok:
		return ""
	case factor <= 0 || factor > 1:
		return fmt.Sprintf("%v: want a number above 0 and at most 1", factor)
	case j.kubelet.Release >= 37 && factor != formerDefault && !j.on("MemoryQoS"):
		return "with the feature gate MemoryQoS off, Kubernetes 1.37 and later accept only the factor 0.9; remove it"
	}
	return ""
}

// enforced checks enforceNodeAllocatable.
func enforced(j *checker, path []string) string {
	const none = "none"
	choices := []string{"pods", "system-reserved", "kube-reserved", none}
	if j.kubelet.Release >= 32 {
		choices = append(choices, "system-reserved-compressible", "kube-reserved-compressible")
	}
	text := j.text(path...)
	switch {
	case !j.set(path...):
		text = "pods" // the default
	case text == "":
		return ""
	}
	items := strings.Split(text, ",")
	for n, item := range items {
		reserved, isReserved := strings.CutSuffix(strings.TrimSuffix(item, "-compressible"), "-reserved")
		group := reserved + "ReservedCgroup"
		switch {
		case !slices.Contains(choices, item):
			return oneOf(item, choices)
		case item == none && len(items) > 1:
			return "none cannot be combined with other values"
		case j.kubelet.Release >= 31 && slices.Contains(items[:n], item):
			return fmt.Sprintf("%s occurs twice", item)
		case isReserved && j.text(group) == "":
			return fmt.Sprintf("%s needs %s", item, group)
		case isReserved && j.kubelet.Release >= 32 && slices.Contains(items, item+"-compressible"):
			return fmt.Sprintf("%s and %[1]s-compressible cannot be combined", item)
		case (item != none || j.kubelet.Release < 31) && !j.isTrue(true, "cgroupsPerQOS"):
			return fmt.Sprintf("%s needs cgroupsPerQOS: true", item)
		}
	}
	return ""
}

// sysctlName matches valid sysctl names.
var sysctlName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)
})

func podSysctls(j *checker, path []string) string {
	set, _ := j.at(path...).(map[string]any)
	if len(set) == 0 {
		return ""
	}
	if why := j.needs("DefaultPodSysctls"); why != "" {
		return why
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		dotted := dots(name)
		switch {
		case !sysctlName().MatchString(name) || len(name) > 253:
			return fmt.Sprintf("%q is not the name of a sysctl", name)
		case !namespaced(dotted):
			return fmt.Sprintf("%s is not namespaced; pods cannot set it", name)
		case seen[dotted]:
			return fmt.Sprintf("%s occurs twice", dotted)
		}
		seen[dotted] = true
	}
	return ""
}

// dots converts a sysctl name to dots as separators: net/ipv4/conf/eth0.100/rp_filter becomes
// net.ipv4.conf.eth0/100.rp_filter.
func dots(name string) string {
	if first := strings.IndexAny(name, "./"); first < 0 || name[first] == '.' {
		return name
	}
	return strings.NewReplacer(".", "/", "/", ".").Replace(name)
}

// namespaced reports whether the kubelet considers a sysctl namespaced. Source:
// k8s.io/component-helpers v0.37.2, node/util/sysctl/namespace.go.
func namespaced(name string) bool {
	switch name {
	case "kernel.domainname", "kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced", "kernel.shm",
		"kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.msg":
		return true
	}
	top, _, _ := strings.Cut(name, ".")
	return top != name && (top == "net" || top == "user" || strings.HasPrefix(name, "fs.mqueue."))
}
