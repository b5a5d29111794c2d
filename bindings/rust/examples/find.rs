//! Finds a part of a picture in it, and sums a rectangle.
use cusight::{box_sums, integral, MatchOptions, Matcher, View};

fn main() -> cusight::Result<()> {
    let (rows, cols) = (120, 160);
    let picture: Vec<u8> = (0..(rows * cols) as u32).map(|i| (i.wrapping_mul(i).wrapping_mul(2654435761) >> 24) as u8).collect();
    let frame = View::new(&picture, rows, cols, 1)?;
    let part = View::with_stride(&picture[40 * cols + 60..], 16, 24, 1, cols)?;

    let mut matcher = Matcher::new(&[part], None, rows, cols, &MatchOptions::default())?;
    let best = matcher.run(frame)?[0][0];
    println!("cusight {}: ({}, {}), score {}", cusight::version(), best.x, best.y, best.score);

    let table = integral::<i32, _>(frame)?;
    println!("sum of the window: {}", box_sums(table.view(), &[[60, 40, 24, 16]])?.row(0)[0]);
    assert_eq!((best.x, best.y, best.score), (60, 40, 1.0));
    Ok(())
}
