//! Matches and score maps equal those of plain loops over the definition.
use cusight::{sys, Element, Match, Matcher, MatcherOptions, Matrix, Method};
use std::mem::discriminant;

/// Values 0 to 255 that look random, the same in each run.
fn noise(count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..count).map(|_| next()).collect()
}

fn options(method: Method) -> MatcherOptions {
    let mut options = MatcherOptions::default();
    options.method = method;
    options
}

/// The sum of term(I, T) over each window, by rows.
fn sums<T: Element + Into<f64>>(frame: &Matrix<T>, template: &Matrix<T>, term: impl Fn(f64, f64, usize) -> f64) -> Vec<Vec<f64>> {
    let ((frame_rows, frame_cols, channels), (rows, cols, _)) = (frame.shape(), template.shape());
    let width = cols * channels;
    let score = |y: usize, x: usize| {
        let pair = |j: usize, i: usize| term(frame.row(y + j)[x * channels + i].into(), template.row(j)[i].into(), j * width + i);
        (0..rows).map(|j| (0..width).map(|i| pair(j, i)).sum::<f64>()).sum()
    };
    (0..=frame_rows - rows).map(|y| (0..=frame_cols - cols).map(|x| score(y, x)).collect()).collect()
}

/// The first least or largest score in row-major order.
fn best(scores: &[Vec<f64>], least: bool) -> Match {
    let mut found = Match { x: 0, y: 0, score: scores[0][0], dx: 0.0, dy: 0.0 };
    for (y, row) in scores.iter().enumerate() {
        for (x, &score) in row.iter().enumerate() {
            if if least { score < found.score } else { score > found.score } {
                found = Match { x, y, score, ..found };
            }
        }
    }
    found
}

#[test]
fn the_best_match_and_every_score_are_those_of_the_definition() {
    for channels in [1, 3] {
        let frame = Matrix::from_slice(37, 53, channels, &noise(37 * 53 * channels, 1)).unwrap();
        let templates =
            [frame.region(31, 17, 11, 7).unwrap(), Matrix::from_slice(7, 11, channels, &noise(77 * channels, 2)).unwrap()];
        for method in [Method::SqDiff, Method::CCorr] {
            let least = discriminant(&method) == discriminant(&Method::SqDiff);
            let mut matcher = Matcher::new(&[&templates[0], &templates[1]], None, (37, 53), &options(method)).unwrap();
            let found = matcher.run(&frame).unwrap();
            let maps = matcher.scores(&frame).unwrap();
            for (index, template) in templates.iter().enumerate() {
                let wanted = sums(&frame, template, |i, t, _| if least { (i - t) * (i - t) } else { i * t });
                assert_eq!(found[index], [best(&wanted, least)], "{channels} channels, {method:?}, template {index}");
                assert_eq!(maps[index].shape(), (31, 43, 1));
                for (y, row) in wanted.iter().enumerate() {
                    for (x, score) in row.iter().enumerate() {
                        assert!((f64::from(maps[index].row(y)[x]) - score).abs() <= 1e-6 * score.max(1e6), "{x}, {y}");
                    }
                }
            }
        }
    }
}

#[test]
fn floats_bits_and_order_of_matches() {
    let values: Vec<f32> = noise(40 * 30, 3).iter().map(|&value| f32::from(value) / 8.0).collect();
    let frame = Matrix::from_slice(30, 40, 1, &values).unwrap();
    let part = frame.region(12, 9, 6, 5).unwrap();
    let mut wanted = options(Method::SqDiff);
    wanted.max_matches = 5;
    wanted.min_distance = 9;
    let found = Matcher::new(&[&part], None, (30, 40), &wanted).unwrap().run(&frame).unwrap().remove(0);
    assert_eq!((found.len(), found[0].x, found[0].y), (5, 12, 9));
    let scores = sums(&frame, &part, |i, t, _| (i - t) * (i - t));
    for pair in found.windows(2) {
        assert!(pair[0].score <= pair[1].score);
        assert!(pair[0].x.abs_diff(pair[1].x) >= 9 || pair[0].y.abs_diff(pair[1].y) >= 9);
    }
    assert!(found.iter().all(|each| (each.score - scores[each.y][each.x]).abs() < 1e-4));

    // A limit that only the copy reaches.
    wanted.score_limit = Some(found[1].score / 2.0);
    assert_eq!(Matcher::new(&[&part], None, (30, 40), &wanted).unwrap().run(&frame).unwrap()[0].len(), 1);
    // Between pixels: the vertex of a parabola through three scores.
    wanted.score_limit = None;
    wanted.subpixel = true;
    let vertex = Matcher::new(&[&part], None, (30, 40), &wanted).unwrap().run(&frame).unwrap()[0][0];
    let (left, right) = (scores[9][11], scores[9][13]);
    assert!((f64::from(vertex.dx) - (left - right) / (2.0 * (left + right))).abs() < 1e-5, "{vertex:?}");
}

#[test]
fn masks_say_which_pixels_count() {
    let frame = Matrix::from_slice(29, 31, 1, &noise(29 * 31, 4)).unwrap();
    let template = Matrix::from_slice(5, 6, 1, &noise(30, 5)).unwrap();
    let bits: Vec<u8> = noise(30, 6).iter().map(|value| value & 1).collect();
    let mask = Matrix::from_slice(5, 6, 1, &bits).unwrap();
    let found = Matcher::new(&[&template], Some(&mask), (29, 31), &options(Method::SqDiff)).unwrap().run(&frame).unwrap();
    let wanted = sums(&frame, &template, |i, t, k| f64::from(bits[k]) * (i - t) * (i - t));
    assert_eq!(found[0], [best(&wanted, true)]);
}

#[test]
fn errors_have_the_library_s_message() {
    let frame = Matrix::from_slice(8, 9, 1, &noise(72, 7)).unwrap();
    let error = Matcher::new(&[&frame], None, (7, 9), &MatcherOptions::default()).err().unwrap();
    assert_eq!(error.status, sys::CUS_ERROR_SIZE);
    assert!(error.to_string().starts_with("cusMatcherCreate: "), "{error}");
    let error = Matcher::<u8>::new(&[], None, (7, 9), &MatcherOptions::default()).err().unwrap();
    assert!(error.message.contains("count"), "{error}");
    let mut none = MatcherOptions::default();
    none.max_matches = 0;
    assert!(Matcher::new(&[&frame], None, (8, 9), &none).err().unwrap().message.contains("max_matches"));
    none.max_matches = 1 << 40;
    assert_eq!(
        Matcher::new(&[&frame], None, (8, 9), &none).err().unwrap().message,
        "cusight: max_matches is 1099511627776, expected at most 2147483647"
    );
    // A frame of another size, in a thread that has the matcher now; afterwards it goes on.
    let mut matcher = Matcher::new(&[&frame], None, (8, 9), &MatcherOptions::default()).unwrap();
    let worker = std::thread::spawn(move || {
        let small = Matrix::from_slice(1, 1, 1, &[0u8]).unwrap();
        let errors = [matcher.run(&small).unwrap_err(), matcher.scores(&small).err().unwrap()];
        assert!(errors.iter().all(|error| error.message.starts_with("cusMatcherRun: ")), "{errors:?}");
        matcher.run(&frame).unwrap()[0][0]
    });
    assert_eq!(worker.join().unwrap(), Match { x: 0, y: 0, score: 1.0, dx: 0.0, dy: 0.0 });
}
