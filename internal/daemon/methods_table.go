package daemon

import (
	"context"
	"slices"
	"time"
)

// unauthorised and invalid are Replies with TuneD's texts.
var unauthorised = Reply{false, "Unauthorized"}

func invalid(argument string) any { return Reply{false, "Invalid " + argument} }

func always(answer any) func(string) any { return func(string) any { return answer } }

// notOverTheBus lists the plug-ins whose instances clients cannot create: they run programs, or
// change the next boot.
var notOverTheBus = []string{"script", "service", "bootloader"}

// pythonWords maps defaults to the words that TuneD prints.
var pythonWords = map[string]string{"": "None", "true": "True", "false": "False"}

// All lists the methods of TuneD 2.28 in alphabetical order; 2.20 lacks four about instances.
var All = []Method{
	{Name: "active_profile", Out: "s", Access: Everybody, Denied: "",
		call: func(_ context.Context, t Target, _ arguments) any { return methodsText(t.Control.ActiveProfile()) }},
	{Name: "auto_profile", Out: "(bs)", Access: ActiveSession, Denied: unauthorised,
		call: func(ctx context.Context, t Target, _ arguments) any { return methodsReply(t.Control.Auto(ctx)) }},
	{Name: "disable", Out: "b", Access: Administrator, Denied: false,
		call: func(ctx context.Context, t Target, _ arguments) any { return t.Control.Disable(ctx) }},
	{Name: "get_all_plugins", Out: "a{sa{ss}}", Access: ActiveSession, Denied: map[string]map[string]string{},
		call: func(_ context.Context, t Target, _ arguments) any {
			plugins := map[string]map[string]string{}
			for name, options := range t.Control.Plugins() {
				plugins[methodsText(name)] = methodsTable(options)
				for option, value := range options {
					if word, ok := pythonWords[value]; ok {
						plugins[methodsText(name)][methodsText(option)] = word
					}
				}
			}
			return plugins
		}},
	{Name: "get_instances", In: []Argument{{"plugin_name", "s"}}, Out: "(bsa(ss))", Access: Everybody,
		Denied:  Instances{false, unauthorised.Message, []Pair{}},
		refused: func(argument string) any { return Instances{false, "Invalid " + argument, []Pair{}} },
		call: func(_ context.Context, t Target, a arguments) any {
			ok, message, instances := t.Control.Instances(a.text(0))
			return Instances{ok, methodsText(message), pairs(instances)}
		}},
	{Name: "get_plugin_documentation", In: []Argument{{"plugin_name", "s"}}, Out: "s", Access: ActiveSession, Denied: "",
		refused: always(""),
		call: func(_ context.Context, t Target, a arguments) any {
			return methodsText(t.Control.PluginDocumentation(a.text(0)))
		}},
	{Name: "get_plugin_hints", In: []Argument{{"plugin_name", "s"}}, Out: "a{ss}", Access: ActiveSession, Denied: map[string]string{},
		refused: always(map[string]string{}),
		call: func(_ context.Context, t Target, a arguments) any {
			return methodsTable(t.Control.PluginHints(a.text(0)))
		}},
	{Name: "instance_acquire_devices", In: []Argument{{"devices", "s"}, {"instance_name", "s"}}, Out: "(bs)",
		Access: Administrator, Denied: unauthorised, refused: invalid,
		call: func(ctx context.Context, t Target, a arguments) any {
			return methodsReply(t.Control.AcquireDevices(ctx, a.text(0), a.text(1)))
		}},
	{Name: "instance_create", In: []Argument{{"plugin_name", "s"}, {"instance_name", "s"}, {"options", "a{ss}"}}, Out: "(bs)",
		Access: Administrator, Denied: unauthorised, refused: invalid,
		call: func(ctx context.Context, t Target, a arguments) any {
			if slices.Contains(notOverTheBus, a.text(0)) {
				return Reply{false, "plug-in '" + a.text(0) + "' runs programs or changes the next boot; only a profile may use it"}
			}
			return methodsReply(t.Control.CreateInstance(ctx, a.text(0), a.text(1), a.table(2)))
		}},
	{Name: "instance_destroy", In: []Argument{{"instance_name", "s"}}, Out: "(bs)",
		Access: Administrator, Denied: unauthorised, refused: invalid,
		call: func(ctx context.Context, t Target, a arguments) any {
			return methodsReply(t.Control.DestroyInstance(ctx, a.text(0)))
		}},
	{Name: "instance_get_devices", In: []Argument{{"instance_name", "s"}}, Out: "(bsas)", Access: Everybody,
		Denied:  Devices{false, unauthorised.Message, []string{}},
		refused: func(argument string) any { return Devices{false, "Invalid " + argument, []string{}} },
		call: func(_ context.Context, t Target, a arguments) any {
			ok, message, devices := t.Control.InstanceDevices(a.text(0))
			return Devices{ok, methodsText(message), texts(devices)}
		}},
	{Name: "is_running", Out: "b", Access: Everybody, Denied: false,
		call: func(_ context.Context, t Target, _ arguments) any { return t.Control.IsRunning() }},
	{Name: "log_capture_finish", In: []Argument{{"token", "s"}}, Out: "s", Access: ActiveSession, Denied: "",
		refused: always(""),
		call: func(_ context.Context, t Target, a arguments) any {
			return methodsText(t.Control.CaptureEnd(a.text(0)))
		}},
	{Name: "log_capture_start", In: []Argument{{"log_level", "i"}, {"timeout", "i"}}, Out: "s", Access: ActiveSession, Denied: "",
		call: func(_ context.Context, t Target, a arguments) any {
			return methodsText(t.Control.Capture(a.number(0), time.Duration(max(a.number(1), 0))*time.Second))
		}},
	{Name: "post_loaded_profile", Out: "s", Access: Everybody, Denied: "",
		call: func(_ context.Context, t Target, _ arguments) any { return methodsText(t.Control.PostLoadedProfile()) }},
	{Name: "profile_info", In: []Argument{{"profile_name", "s"}}, Out: "(bsss)", Access: Everybody, Denied: MethodInfo{},
		refused: always(MethodInfo{}),
		call: func(ctx context.Context, t Target, a arguments) any {
			name := a.text(0)
			if name == "" {
				name = t.Control.ActiveProfile()
			}
			ok, info := t.Control.ProfileInfo(ctx, name)
			return MethodInfo{ok, methodsText(info.Name), methodsText(info.Summary), methodsText(info.Description)}
		}},
	{Name: "profile_mode", Out: "(ss)", Access: Everybody, Denied: Mode{"unknown", unauthorised.Message},
		call: func(_ context.Context, t Target, _ arguments) any {
			mode, failure := t.Control.Mode()
			return Mode{methodsText(mode), methodsText(failure)}
		}},
	{Name: "profiles", Out: "as", Access: Everybody, Denied: []string{},
		call: func(ctx context.Context, t Target, _ arguments) any {
			names := []string{}
			for _, p := range t.Control.Profiles(ctx) {
				names = append(names, methodsText(p.Name))
			}
			return names
		}},
	{Name: "profiles2", Out: "a(ss)", Access: Everybody, Denied: []Pair{},
		call: func(ctx context.Context, t Target, _ arguments) any {
			list := []Pair{}
			for _, p := range t.Control.Profiles(ctx) {
				list = append(list, Pair{methodsText(p.Name), methodsText(p.Summary)})
			}
			return list
		}},
	{Name: "recommend_profile", Out: "s", Access: Everybody, Denied: "",
		call: func(ctx context.Context, t Target, _ arguments) any { return methodsText(t.Control.Recommend(ctx)) }},
	{Name: "register_socket_signal_path", In: []Argument{{"path", "s"}}, Out: "b", Access: RootOnly, Denied: false,
		refused: always(false),
		call: func(_ context.Context, t Target, a arguments) any {
			return t.AddSignalPath != nil && t.AddSignalPath(a.text(0))
		}},
	{Name: "reload", Out: "b", Access: Administrator, Denied: false,
		call: func(ctx context.Context, t Target, _ arguments) any { return t.Control.Reload(ctx) }},
	{Name: "start", Out: "b", Access: Administrator, Denied: false,
		call: func(ctx context.Context, t Target, _ arguments) any { return t.Control.Start(ctx) }},
	{Name: "stop", Out: "b", Access: Administrator, Denied: false,
		call: func(ctx context.Context, t Target, _ arguments) any { return t.Control.Stop(ctx) }},
	{Name: "switch_profile", In: []Argument{{"profile_name", "s"}}, Out: "(bs)", Access: ActiveSession, Denied: unauthorised,
		refused: invalid,
		call: func(ctx context.Context, t Target, a arguments) any {
			return methodsReply(t.Control.Switch(ctx, a.text(0)))
		}},
	{Name: "verify_profile", Out: "b", Access: Everybody, Denied: false,
		call: func(ctx context.Context, t Target, _ arguments) any { return t.Control.Verify(ctx, false) }},
	{Name: "verify_profile_ignore_missing", Out: "b", Access: Everybody, Denied: false,
		call: func(ctx context.Context, t Target, _ arguments) any { return t.Control.Verify(ctx, true) }},
}

func methodsReply(ok bool, message string) any { return Reply{ok, methodsText(message)} }
