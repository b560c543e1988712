//! Divides the CPU and the disk of a shard between its activities: how fast each runs now.
//!
//! An activity needs some of each resource for a unit of its work, and has shares. Work is divided by
//! **dominant resource fairness** (Ghodsi et al., 2011), weighted by the shares: the rates of all activities
//! rise together, in proportion to their shares over the resource of which they need most, until a resource
//! is full or an activity has all that it asks for; those are fixed and the others rise further. With one
//! resource this is the division of the production scheduler ([`iosched::FairShares`]), which a test
//! compares. Nothing is left idle that an activity could use.

/// The resources: seconds of CPU and of disk in a second.
pub const RESOURCES: usize = 2;

/// Work that competes for the resources.
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    pub shares: f64,
    /// Seconds of CPU and of the whole disk for one unit of work.
    pub costs_s: [f64; RESOURCES],
    /// Units per second that it could use; may be infinite.
    pub wanted_per_s: f64,
}

/// The units per second that each activity gets.
pub fn divide(activities: &[Activity]) -> Vec<f64> {
    let dominant = |activity: &Activity| activity.costs_s.into_iter().fold(0.0, f64::max);
    let mut rates = vec![0.0; activities.len()];
    let mut is_fixed: Vec<bool> =
        activities.iter().map(|activity| activity.wanted_per_s <= 0.0 || activity.shares <= 0.0).collect();
    // Work without costs is not held up by anything.
    for (at, activity) in activities.iter().enumerate() {
        if !is_fixed[at] && dominant(activity) <= 0.0 {
            (rates[at], is_fixed[at]) = (activity.wanted_per_s, true);
        }
    }
    let mut free = [1.0; RESOURCES];
    while is_fixed.iter().any(|fixed| !fixed) {
        let rising = || activities.iter().enumerate().filter(|(at, _)| !is_fixed[*at]);
        let slope = |activity: &Activity| activity.shares / dominant(activity);
        let mut used = [0.0; RESOURCES];
        for (_, activity) in rising() {
            (0..RESOURCES).for_each(|k| used[k] += slope(activity) * activity.costs_s[k]);
        }
        let until_full = (0..RESOURCES)
            .filter(|k| used[*k] > 0.0)
            .map(|k| free[k] / used[k])
            .fold(f64::INFINITY, f64::min);
        let until_content = rising()
            .map(|(at, activity)| (activity.wanted_per_s - rates[at]) / slope(activity))
            .fold(f64::INFINITY, f64::min);
        let step = until_full.min(until_content).max(0.0);
        let mut fixed_now = vec![];
        for (at, activity) in rising() {
            rates[at] += step * slope(activity);
            if until_content <= until_full && activity.wanted_per_s - rates[at] <= rates[at] * 1e-12 {
                fixed_now.push(at);
            }
        }
        for k in 0..RESOURCES {
            free[k] = (free[k] - step * used[k]).max(0.0);
        }
        if until_full <= until_content {
            let is_full = |k: usize| used[k] > 0.0 && free[k] <= 1e-12;
            let stops = |activity: &Activity| (0..RESOURCES).any(|k| is_full(k) && activity.costs_s[k] > 0.0);
            fixed_now.extend(rising().filter(|(_, activity)| stops(activity)).map(|(at, _)| at));
        }
        if fixed_now.is_empty() {
            break;
        }
        fixed_now.into_iter().for_each(|at| is_fixed[at] = true);
    }
    rates
}

#[cfg(test)]
mod tests {
    use iosched::FairShares;

    use super::*;

    fn activity(shares: f64, cpu_s: f64, disk_s: f64, wanted_per_s: f64) -> Activity {
        Activity { shares, costs_s: [cpu_s, disk_s], wanted_per_s }
    }

    #[test]
    fn work_that_fits_is_done() {
        let rates = divide(&[activity(1.0, 0.01, 0.0, 30.0), activity(1.0, 0.0, 0.001, 700.0)]);
        assert_eq!(rates, [30.0, 700.0]);
        assert_eq!(divide(&[]), Vec::<f64>::new());
        assert_eq!(divide(&[activity(1.0, 1.0, 1.0, 0.0)]), [0.0]);
    }

    #[test]
    fn what_one_does_not_use_goes_to_the_others() {
        let rates = divide(&[activity(1000.0, 0.01, 0.0, 20.0), activity(50.0, 0.01, 0.0, f64::INFINITY)]);
        assert!((rates[0] - 20.0).abs() < 1e-9 && (rates[1] - 80.0).abs() < 1e-9, "{rates:?}");
        // The disk is the narrow place of the second; the first gets the rest of the CPU.
        let rates = divide(&[
            activity(1000.0, 0.01, 0.0, f64::INFINITY),
            activity(2000.0, 0.001, 0.1, f64::INFINITY),
        ]);
        assert!((rates[1] - 10.0).abs() < 1e-6 && (rates[0] - 99.0).abs() < 1e-6, "{rates:?}");
    }

    #[test]
    fn one_resource_is_divided_as_by_the_production_scheduler() {
        let shares = [1000, 1000, 173];
        let costs_s = [0.000_02, 0.000_5, 0.000_128];
        let activities: Vec<Activity> = shares
            .iter()
            .zip(costs_s)
            .map(|(shares, cost_s)| activity(f64::from(*shares), 0.0, cost_s, f64::INFINITY))
            .collect();
        let mut queue = FairShares::default();
        let mut done = [0u64; 3];
        for (class, shares) in shares.iter().enumerate() {
            queue.set_shares(class, *shares);
            queue.wake(class, 0);
        }
        let mut used_s = 0.0;
        while used_s < 20.0 {
            let class = queue.next().unwrap();
            queue.charge(class, (costs_s[class] * 1e9) as u64);
            done[class] += 1;
            used_s += costs_s[class];
        }
        for (rate, done) in divide(&activities).into_iter().zip(done) {
            assert!((rate / (done as f64 / used_s) - 1.0).abs() < 0.01, "{rate} and {done} in {used_s} s");
        }
    }
}
