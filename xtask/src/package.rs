//! The Python package: installed as a user would, and tested against the libraries it is made for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python;
use crate::steps::Run;
use crate::workspace::{Workspace, run};

/// Python's test runner, which ends a test that hangs, with a trace of where.
pub(crate) const PYTEST: [&str; 6] = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--timeout=300"];

/// Four steps: what a user does first, what needs small libraries only, other versions of Python, and what needs torch.
pub(crate) fn steps(workspace: &Workspace, run: &mut Run) {
    let tests = workspace.root.join("tests").join("python");
    let mut wheel = None;
    run.step("Python package alone", || {
        let interpreter = python::prepare(&workspace.target.join("venv-alone"), &[])?;
        wheel = Some(build(workspace, &interpreter)?);
        try_alone(workspace, &interpreter, wheel.as_deref())
    });
    run.step("Python package", || {
        let venv = workspace.target.join("venv-package");
        let interpreter = python::prepare(&venv, &[tests.join("requirements.txt")])?;
        install(workspace, &interpreter, wheel.as_deref())?;
        let torch = tests.join("with_torch");
        let arguments = PYTEST.iter().chain(&["--ignore"]).map(Into::into);
        test(workspace, &interpreter, arguments.chain([torch, tests.clone()]))
    });
    run.step("Python versions", || test_versions(workspace, wheel.as_deref()));
    // torch is larger than all else, and where it does not install its tests are left out, aloud.
    run.step("Python package with torch", || {
        let venv = workspace.target.join("venv-torch");
        let requirements = [tests.join("requirements.txt"), tests.join("with_torch").join("requirements.txt")];
        match python::prepare(&venv, &requirements) {
            Ok(interpreter) => {
                install(workspace, &interpreter, wheel.as_deref())?;
                test(workspace, &interpreter, PYTEST.iter().map(Into::into).chain([tests.join("with_torch")]))
            }
            Err(why) => gap(format!("because torch does not install here: {why}")),
        }
    });
}

/// Where this is set, to versions of Python such as "3.10 3.11", all of them must be there, and whatever cannot be tested is a
/// failure: on machines that were set up for it.
const DEMANDED: &str = "PHALANX_PYTHONS";

/// Says what is not tested, which is a failure only where everything is demanded.
fn gap(what: String) -> Result<(), String> {
    if std::env::var_os(DEMANDED).is_some() {
        return Err(format!("not tested, {what}"));
    }
    println!("NOT TESTED, {what}");
    Ok(())
}

/// Tests of what depends on the versions of Python, NumPy and Gymnasium: the rows of the checklist but for those that need
/// other libraries or time. Together they take some half a minute.
const VERSION_TESTS: [&str; 17] = [
    "test_a_shape.py",
    "test_b_step.py",
    "test_c_autoreset.py",
    "test_d_info.py",
    "test_doctests.py",
    "test_e_seeding.py",
    "test_f_registration.py",
    "test_g_checker.py",
    "test_g_single.py",
    "test_h_wrappers.py",
    "test_j_masks.py",
    "test_lazy_imports.py",
    "test_l_safety.py",
    "test_n_memory.py",
    "test_o_threads.py",
    "test_p_snapshot.py",
    "test_rollout.py",
];

/// Tests that need libraries of their own, or take their time: with the newest of the other Pythons, some forty seconds.
const LIBRARY_TESTS: [&str; 4] = ["test_k_pettingzoo.py", "test_m_minari.py", "test_lab.py", "test_training.py"];

/// The sets of libraries (`requirements-NAME.txt`) for one of the other Pythons, the oldest of which comes first.
fn sets(place: usize, count: usize, takes_oldest: bool) -> &'static [&'static str] {
    match place {
        0 if takes_oldest => &["oldest", "old-numpy", "old-gymnasium"],
        last if last + 1 == count => &["newest-libraries"],
        1 => &["gymnasium-1.3"],
        _ => &["newest"],
    }
}

/// The same wheel with the other Pythons of this machine: the oldest with the oldest libraries and with each of them among
/// the newest, the others with the newest, one with the Gymnasium in between and the newest with optional libraries, too.
/// Which Pythons a machine has is its own matter, so having none is said and no failure, unless they are demanded.
fn test_versions(workspace: &Workspace, wheel: Option<&Path>) -> Result<(), String> {
    let tests = workspace.root.join("tests").join("python");
    let pythons = python::others();
    let mut gaps = Vec::new();
    if pythons.is_empty() {
        gaps.extend(gap("because there is no other Python here from 3.10 on".to_owned()).err());
    }
    let own = python::own();
    for demanded in std::env::var(DEMANDED).unwrap_or_default().split_whitespace() {
        let has = |version: &String| python::minor(version) == python::minor(demanded);
        if !own.iter().any(has) && !pythons.iter().any(|(_, version)| has(version)) {
            gaps.extend(gap(format!("because there is no Python {demanded} here")).err());
        }
    }
    let mut tested = 0;
    for (i, (python, version)) in pythons.iter().enumerate() {
        let minor = python::minor(version).ok_or_else(|| format!("{version} is no version of Python"))?;
        // The oldest NumPy is older than Python 3.13.
        let takes_oldest = i == 0 && minor <= 12;
        if i == 0 && !takes_oldest {
            gaps.extend(gap(format!("with the oldest libraries, because the oldest other Python is {version}")).err());
        }
        for libraries in sets(i, pythons.len(), takes_oldest) {
            println!("Python {version} with the libraries of requirements-{libraries}.txt");
            let venv = workspace.target.join(format!("venv-3.{minor}-{libraries}"));
            let requirements = tests.join(format!("requirements-{libraries}.txt"));
            match python::prepare_with(python, version, &venv, &[requirements]) {
                Ok(interpreter) => {
                    install(workspace, &interpreter, wheel)?;
                    let more: &[&str] = if *libraries == "newest-libraries" { &LIBRARY_TESTS } else { &[] };
                    let chosen = VERSION_TESTS.iter().chain(more).map(|name| tests.join(name));
                    workspace.run(&interpreter, PYTEST.iter().map(Into::into).chain(chosen))?;
                    tested += 1;
                }
                Err(why) => {
                    let what =
                        format!("with Python {version}, because requirements-{libraries}.txt do not install: {why}");
                    gaps.extend(gap(what).err());
                }
            }
        }
    }
    if tested == 0 && !pythons.is_empty() {
        return Err("the libraries of none of the other Pythons can be installed".to_owned());
    }
    if gaps.is_empty() { Ok(()) } else { Err(gaps.join("; ")) }
}

/// Measures what the package promises of its speed, beside Gymnasium and, where it installs, EnvPool.
pub(crate) fn speed(workspace: &Workspace) -> Result<(), String> {
    let tests = workspace.root.join("tests").join("python");
    let venv = workspace.target.join("venv-speed");
    let [basic, envpool] = ["requirements-speed.txt", "requirements-envpool.txt"].map(|name| tests.join(name));
    let interpreter = python::prepare(&venv, &[basic.clone(), envpool]).or_else(|why| {
        println!("EnvPool does not install here: {why}");
        python::prepare(&venv, &[basic])
    })?;
    workspace.cargo("build --release --package phalanx-cli")?;
    let wheel = build(workspace, &interpreter)?;
    install(workspace, &interpreter, Some(&wheel))?;
    test(workspace, &interpreter, [tests.join("speed.py"), "--check".into()])
}

/// Runs Python with the command that belongs to the package, so that no test of both is left out, and has tests fail that
/// would be skipped: where everything is installed, an oracle that is missing is a fault.
fn test(workspace: &Workspace, interpreter: &Path, arguments: impl IntoIterator<Item = PathBuf>) -> Result<(), String> {
    let phalanx = workspace.release_binary("phalanx");
    if !phalanx.exists() {
        return Err(format!("{} is not built, which some of the tests need", phalanx.display()));
    }
    let mut command = Command::new(interpreter);
    run(command.args(arguments).current_dir(&workspace.root).env("PHALANX_BIN", phalanx).env("PHALANX_NO_SKIPS", "1"))
}

/// `pip install` with nothing there before: the package brings what it needs, and nothing else is imported.
fn try_alone(workspace: &Workspace, interpreter: &Path, wheel: Option<&Path>) -> Result<(), String> {
    const SCRIPT: &str = "\
import phalanx
env = phalanx.make_vec('CartPole-v1', 4)
env.reset(seed=0)
env.step([0, 1, 0, 1])
print('phalanx', phalanx.__version__, phalanx.rollout('CartPole-v1', 100).steps)
# What the package brings, and not what happens to be on this machine.
import os, sysconfig
os.environ.update(PATH='', PHALANX_BIN='')
assert str(phalanx.lab.command().parent) == sysconfig.get_path('scripts'), phalanx.lab.command()
suite = phalanx.lab.run_suite(['startup'], output_dir='suite-alone', pairs=2, samples=2, sample_ms=1, verbose=False)
print('the suite has', len(suite.results), 'results')";
    let wheel = wheel.ok_or("not run, because the package was not built")?;
    let arguments = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall"];
    workspace.run(interpreter, arguments.map(Into::into).into_iter().chain([wheel.to_owned()]))?;
    // Not from the root, where Python would find the sources instead of what was installed.
    run(Command::new(interpreter).args(["-c", SCRIPT]).current_dir(&workspace.target))
}

/// `pip wheel .`: what `pip install .` does first, once for all virtual environments, since each of them would have the
/// bindings compiled anew.
fn build(workspace: &Workspace, interpreter: &Path) -> Result<PathBuf, String> {
    let wheels = workspace.target.join("wheels");
    // A wheel of an earlier run may have another name.
    if wheels.exists() {
        fs::remove_dir_all(&wheels).map_err(|error| format!("cannot empty {}: {error}", wheels.display()))?;
    }
    let arguments = ["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir"];
    let paths = [wheels.clone(), workspace.root.clone()];
    workspace.run(interpreter, arguments.map(Into::into).into_iter().chain(paths))?;
    let mut built = fs::read_dir(&wheels).map_err(|error| format!("cannot read {}: {error}", wheels.display()))?;
    let wheel = built.find_map(Result::ok).ok_or("pip made no wheel")?;
    Ok(wheel.path())
}

/// Installs the wheel anew, since the version does not change with the source.
fn install(workspace: &Workspace, interpreter: &Path, wheel: Option<&Path>) -> Result<(), String> {
    let wheel = wheel.ok_or("not run, because the package was not built")?;
    let arguments =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps"];
    workspace.run(interpreter, arguments.map(Into::into).into_iter().chain([wheel.to_owned()]))
}

#[cfg(test)]
mod tests {
    use super::sets;

    #[test]
    fn every_set_of_libraries_is_used_where_there_are_three_other_pythons() {
        let of = |count, takes_oldest| -> Vec<&str> {
            (0..count).flat_map(|place| sets(place, count, takes_oldest)).copied().collect()
        };
        let oldest = ["oldest", "old-numpy", "old-gymnasium"];
        assert_eq!(of(1, true), oldest);
        assert_eq!(of(1, false), ["newest-libraries"]);
        assert_eq!(of(3, true), [&oldest[..], &["gymnasium-1.3", "newest-libraries"]].concat());
        assert_eq!(of(4, true), [&oldest[..], &["gymnasium-1.3", "newest", "newest-libraries"]].concat());
        assert_eq!(of(3, false), ["newest", "gymnasium-1.3", "newest-libraries"]);
    }
}
